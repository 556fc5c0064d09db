//! Reads messages of the kernel.
//!
//! It decodes only the attributes that we use. `netlink-packet-route` can decode whole messages,
//! but rejects a whole link when one attribute is not as it expects: a name that is not UTF-8, or
//! the statistics of a newer kernel. Links of other programs must not keep us from finding ours.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_ACK_TLVS, NetlinkBuffer, NlaBuffer, NlasIterator};

/// One message in a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub content: &'a [u8],
}

/// The messages of one datagram. A cut message is left out: the kernel sends none.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    std::iter::from_fn(move || {
        let buffer = NetlinkBuffer::new_checked(datagram).ok()?;
        let length = usize::try_from(buffer.length()).ok()?;
        let content = datagram.get(HEADER..length)?;
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
        Some(Raw {
            kind: buffer.message_type(),
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
            content,
        })
    })
}

const HEADER: usize = 16;

/// The attributes after a fixed part of this length.
pub fn attributes(content: &[u8], fixed: usize) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(content.get(fixed..).unwrap_or_default()).map_while(Result::ok)
}

/// The code at the start of an error or of the end of a dump; zero says that all is well.
pub fn code(content: &[u8]) -> i32 {
    content.first_chunk().copied().map_or(0, i32::from_ne_bytes)
}

/// The kernel's words on an error, after a fixed part of this length.
pub fn explanation(message: Raw<'_>, fixed: usize) -> Option<String> {
    const TEXT: u16 = 1;
    if message.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let found = attributes(message.content, fixed).find(|attribute| attribute.kind() == TEXT);
    found.map(|attribute| text(attribute.value()))
}

pub fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().copied().map(u32::from_ne_bytes)
}

pub fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The kernel's texts end with a zero, and are not always UTF-8.
pub fn text(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    #[test]
    fn written_messages_are_read_again() {
        let mut batch = Batch::default();
        batch.get_link("eth0");
        batch.get_link("eth1");
        let numbered = batch.number(7);
        let read: Vec<Raw<'_>> = messages(&numbered.bytes).collect();
        let sequences: Vec<u32> = read.iter().map(|message| message.sequence).collect();
        assert_eq!(sequences, [7, 8]);
        let found: Vec<_> = attributes(read[1].content, 16).collect();
        assert_eq!(
            (found.len(), found[0].kind(), text(found[0].value())),
            (1, 3, "eth1".into())
        );
    }

    #[test]
    fn a_cut_message_is_left_out() {
        let mut batch = Batch::default();
        batch.get_link("eth0");
        let bytes = batch.number(0).bytes;
        assert_eq!(messages(&bytes).count(), 1);
        for end in 0..bytes.len() {
            assert_eq!(messages(&bytes[..end]).count(), 0, "{end}");
        }
    }

    #[test]
    fn a_text_that_is_no_utf8_is_read_as_far_as_it_goes() {
        assert_eq!(text(b"a\xffb\0c"), "a\u{fffd}b");
    }
}
