//! Lists that the kernel sends in several datagrams.

use std::io;

use netlink_packet_core::{NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR};

use crate::error::NetlinkError;
use crate::read::{Raw, code, explanation, messages};

/// The end of a dump has only a code before the kernel's text; an error repeats a header, too.
const DONE_FIXED: usize = 4;
const ERROR_FIXED: usize = 4 + 16;

/// A dump while it is read.
#[derive(Debug)]
pub struct Dump<T> {
    sequence: u32,
    list: Vec<T>,
    was_interrupted: bool,
}

/// How a dump ended.
#[derive(Debug)]
pub enum End<T> {
    Complete(Vec<T>),
    /// The list changed during the dump, so it is inconsistent.
    Interrupted,
}

impl<T> Dump<T> {
    pub fn new(sequence: u32) -> Self {
        Self {
            sequence,
            list: Vec::new(),
            was_interrupted: false,
        }
    }

    /// Takes in a datagram, and returns how the dump ended if this was its last one.
    pub fn take(
        &mut self,
        datagram: &[u8],
        request: &str,
        read: impl Fn(Raw<'_>) -> Option<T>,
    ) -> Option<Result<End<T>, NetlinkError>> {
        for message in messages(datagram) {
            if message.sequence != self.sequence {
                continue;
            }
            self.was_interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
            let fixed = match message.kind {
                NLMSG_DONE => DONE_FIXED,
                NLMSG_ERROR => ERROR_FIXED,
                _ => {
                    self.list.extend(read(message));
                    continue;
                }
            };
            return Some(match code(message.content) {
                0 if self.was_interrupted => Ok(End::Interrupted),
                0 => Ok(End::Complete(std::mem::take(&mut self.list))),
                code => Err(NetlinkError::Refused {
                    request: request.to_owned(),
                    explanation: explanation(message, fixed),
                    source: io::Error::from_raw_os_error(code.saturating_neg()),
                }),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const ROUTE: u16 = 24;

    fn message(kind: u16, flags: u16, sequence: u32, number: i32) -> Vec<u8> {
        let mut bytes = 20u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(number.to_ne_bytes());
        bytes
    }

    fn take(dump: &mut Dump<i32>, bytes: &[u8]) -> Option<Result<End<i32>, NetlinkError>> {
        dump.take(bytes, "list", |message| Some(code(message.content)))
    }

    #[test]
    fn a_dump_is_complete_when_the_kernel_says_so() {
        let mut dump = Dump::new(5);
        let two = [message(ROUTE, 0, 5, 10), message(ROUTE, 0, 5, 11)].concat();
        assert!(take(&mut dump, &two).is_none());
        assert!(take(&mut dump, &message(ROUTE, 0, 5, 12)).is_none());
        let end = take(&mut dump, &message(NLMSG_DONE, 0, 5, 0));
        assert!(matches!(end, Some(Ok(End::Complete(list))) if list == [10, 11, 12]));
    }

    #[test]
    fn a_dump_of_two_times_is_not_taken() {
        let mut dump = Dump::new(5);
        assert!(take(&mut dump, &message(ROUTE, NLM_F_DUMP_INTR, 5, 10)).is_none());
        let end = take(&mut dump, &message(NLMSG_DONE, 0, 5, 0));
        assert!(matches!(end, Some(Ok(End::Interrupted))));
    }

    #[test]
    fn a_dump_that_the_kernel_gives_up_is_an_error() {
        for kind in [NLMSG_DONE, NLMSG_ERROR] {
            let mut dump = Dump::new(5);
            let end = take(
                &mut dump,
                &message(kind, 0, 5, -Errno::NOMEM.raw_os_error()),
            );
            assert!(matches!(end, Some(Err(error)) if error.is(Errno::NOMEM)));
        }
    }

    #[test]
    fn what_is_left_of_an_earlier_dump_is_skipped() {
        let mut dump = Dump::new(5);
        assert!(take(&mut dump, &message(ROUTE, 0, 4, 10)).is_none());
        assert!(take(&mut dump, &message(NLMSG_DONE, 0, 4, 0)).is_none());
        let end = take(&mut dump, &message(NLMSG_DONE, 0, 5, 0));
        assert!(matches!(end, Some(Ok(End::Complete(list))) if list.is_empty()));
    }
}
