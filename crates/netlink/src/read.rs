//! Reading messages. What is shorter than it says is left out: the kernel does not send such.

const HEADER: usize = 16;

/// One of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u16,
    pub sequence: u32,
    pub content: Vec<u8>,
}

impl Message {
    /// The attributes after a fixed part of this length.
    pub fn attributes(&self, fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.content.get(fixed..).unwrap_or_default())
    }
}

pub fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut list = Vec::new();
    while let Some(length) = unsigned(bytes).and_then(|length| usize::try_from(length).ok()) {
        let Some(content) = bytes.get(HEADER..length) else {
            break;
        };
        let (Some(kind), Some(sequence)) = (short(bytes, 4), bytes.get(8..).and_then(unsigned)) else {
            break;
        };
        list.push(Message {
            kind,
            sequence,
            content: content.to_vec(),
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    list
}

pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// The upper bits say how to read it, and are known without.
    const KIND: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(short(bytes, 0)?), short(bytes, 2)?);
        let content = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & KIND, content))
    })
}

pub fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

pub fn unsigned(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

pub fn signed(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().copied().map(i32::from_ne_bytes)
}

pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Batch, GET_LINK, LIST};

    #[test]
    fn what_is_written_is_read_again_and_a_cut_message_is_left_out() {
        let mut batch = Batch::default();
        batch.message(GET_LINK, LIST, &[7; 16], |attributes| {
            attributes.text(3, "eth0");
            attributes.nested(18, |inner| inner.number(1, 9));
        });
        batch.message(GET_LINK, LIST, &[8; 16], |_| {});
        let read = messages(batch.bytes());
        assert_eq!((read.len(), read[0].sequence, read[1].sequence), (2, 0, 1));
        let found: Vec<_> = read[0].attributes(16).collect();
        assert_eq!((found[0].0, text(found[0].1)), (3, "eth0".to_owned()));
        let inner: Vec<_> = attributes(found[1].1).collect();
        assert_eq!(inner, [(1, &9u32.to_ne_bytes()[..])]);
        for end in 0..batch.bytes().len() {
            assert!(messages(&batch.bytes()[..end]).len() < 2);
        }
    }
}
