//! The names of entries in the release queue: a folder with one file for each attachment whose release nobody has acknowledged.
//!
//! `<container>:<interface>`. Neither part can have a colon in it, both are checked, and no name begins with a dot: so a name says which
//! attachment it is of, can't leave the folder, and can't be taken for a file that is still being written.

use crate::cni::Attachment;

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
    fn a_name_stands_for_one_attachment_and_stays_in_its_folder() {
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
