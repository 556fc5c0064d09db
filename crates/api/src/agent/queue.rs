//! The names of entries in the release queue: a directory with one file for each attachment whose
//! release nobody has acknowledged.
//!
//! `<container>:<interface>`. Neither part can have a colon in it, both are checked, and no name
//! begins with a dot: so a name says which attachment it is of, can't leave the directory, and
//! can't be taken for a file that is still being written.
//!
//! The queue has a limit. Past it, and on a disk without room for one more entry, a plugin leaves
//! one mark for all releases that it can't leave: `overflow-<time>`, an empty file whose name says
//! when the last of these DELs was started. Who finds it has to ask the runtime which attachments
//! are gone. The mark is made by renaming a file that was made earlier, [`RESERVE`], which needs no
//! room; and since a rename names what it replaces, nobody can take a mark away that has changed
//! meanwhile.

use crate::cni::Attachment;

/// So many entries: ten times what a full node's pods leave when all of them go.
pub const MAX_QUEUE_ENTRIES: usize = 4096;
/// So many bytes, as they are on the disk: that many entries in blocks of the usual size.
pub const MAX_QUEUE_BYTES: u64 = 16 << 20;
/// The file that becomes the mark. It is there before it is needed.
pub const RESERVE: &str = ".overflow";
const OVERFLOW: &str = "overflow-";

/// The mark's name, for DELs of which the last was started then.
pub fn overflow_name(started: u64) -> String {
    format!("{OVERFLOW}{started:016x}")
}

/// When the last DEL was started that a mark of this name stands for; `None` when it is no mark's.
pub fn overflow_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(OVERFLOW).filter(|digits| digits.len() == 16)?;
    let started = u64::from_str_radix(digits, 16).ok()?;
    (overflow_name(started) == name).then_some(started)
}

/// The file name of an attachment's entry.
pub fn entry_name(attachment: &Attachment) -> String {
    format!("{}:{}", attachment.container, attachment.interface)
}

/// The attachment that a file name stands for; `None` when it is no entry's name.
pub fn entry_of(name: &str) -> Option<Attachment> {
    let (container, interface) = name.split_once(':')?;
    Attachment::new(container, interface).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marks_name_says_its_time_and_is_no_entrys() {
        for started in [0, 7, 3_000_000_000_000_000, u64::MAX] {
            let name = overflow_name(started);
            assert_eq!(overflow_of(&name), Some(started));
            assert_eq!(entry_of(&name), None);
        }
        let nonsense = [
            "overflow",
            "overflow-7",
            "overflow-000000000000000G",
            "overflow-000000000000000A",
        ];
        for name in nonsense
            .into_iter()
            .chain(["overflow-+00000000000000a", RESERVE, "c1:eth0"])
        {
            assert_eq!(overflow_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_stands_for_one_attachment_and_stays_in_its_directory() {
        let attachment = Attachment::new("8f0c.2-a_b", "eth0.1@x").unwrap();
        assert_eq!(entry_name(&attachment), "8f0c.2-a_b:eth0.1@x");
        assert_eq!(entry_of("8f0c.2-a_b:eth0.1@x"), Some(attachment));
        for nonsense in [
            "",
            ":",
            "a",
            "a:",
            ":eth0",
            "a:b:c",
            "../a:eth0",
            ".a:eth0",
            "a:..",
            "a:b/c",
            "a b:eth0",
            "a:eth 0",
        ] {
            assert_eq!(entry_of(nonsense), None, "{nonsense:?}");
        }
    }
}
