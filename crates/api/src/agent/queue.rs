//! The names of entries in the release queue: a directory with one file for each attachment whose
//! release no agent has acknowledged.
//!
//! A name is `<container>:<interface>`. Neither part may contain a colon (both are checked), and no
//! name begins with a dot. So a name identifies its attachment, cannot leave the directory, and
//! differs from a file that is still being written.
//!
//! The queue has a limit. Past it, or on a disk without room for another entry, a plugin leaves one
//! mark for all releases that it cannot queue: `overflow-<time>`, an empty file whose name says
//! when the last of these DELs was started. The agent that finds it must ask the runtime which
//! attachments are gone. A plugin makes the mark by renaming a file that exists already,
//! [`RESERVE`], which needs no room. The agent removes the mark by renaming it back. That fails if
//! a plugin has meanwhile renamed the mark to a later time, so no later mark is lost.

use crate::cni::Attachment;

/// The maximum number of entries: many times the pods of a full node. A long outage with failing
/// ADDs must not fill the disk.
pub const MAX_QUEUE_ENTRIES: usize = 4096;
/// The maximum size on disk: the maximum number of entries in blocks of 4 KiB.
pub const MAX_QUEUE_BYTES: u64 = 16 << 20;
/// The file that becomes the mark. It is created in advance.
pub const RESERVE: &str = ".overflow";
const OVERFLOW: &str = "overflow-";

/// The name of a mark whose last DEL was started at this time.
pub fn overflow_name(started: u64) -> String {
    format!("{OVERFLOW}{started:016x}")
}

/// When the last DEL of this mark was started; `None` if the name is not a mark's.
pub fn overflow_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(OVERFLOW).filter(|digits| digits.len() == 16)?;
    let started = u64::from_str_radix(digits, 16).ok()?;
    (overflow_name(started) == name).then_some(started)
}

/// The file name of an attachment's entry.
pub fn entry_name(attachment: &Attachment) -> String {
    format!("{}:{}", attachment.container, attachment.interface)
}

/// The attachment that a file name stands for; `None` when it is not an entry's name.
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
