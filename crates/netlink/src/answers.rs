//! The answers to the requests of a batch.

use std::io;

use netlink_packet_core::NLMSG_ERROR;

use crate::batch::Name;
use crate::error::NetlinkError;
use crate::read::{code, explanation, messages};

/// The answer to one request: the messages that the kernel sent for it, or why it refused.
pub type Answer = Result<Vec<Message>, NetlinkError>;

/// A message that the kernel sent for a request, such as a link that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) kind: u16,
    pub(crate) content: Vec<u8>,
}

/// An error repeats the header of its request after its code.
const ERROR_FIXED: usize = 4 + 16;

/// Matches what the kernel sends to the requests of a batch, by their sequence numbers.
#[derive(Debug)]
pub struct Answers {
    first: u32,
    names: Vec<Name>,
    answers: Vec<Answer>,
}

impl Answers {
    /// For requests with these names, numbered from `first` on.
    pub fn new(first: u32, names: Vec<Name>) -> Self {
        let answers = names.iter().map(|_| Ok(Vec::new())).collect();
        Self {
            first,
            names,
            answers,
        }
    }

    /// Takes in a datagram, and returns whether the kernel has finished the request at `last`.
    pub fn take(&mut self, datagram: &[u8], last: usize) -> bool {
        let mut is_through = false;
        for message in messages(datagram) {
            // Skips an answer to an earlier batch that was not read then.
            let Ok(at) = usize::try_from(message.sequence.wrapping_sub(self.first)) else {
                continue;
            };
            let (Some(name), Some(answer)) = (self.names.get(at), self.answers.get_mut(at)) else {
                continue;
            };
            if message.kind == NLMSG_ERROR {
                let code = code(message.content);
                if code != 0 {
                    *answer = Err(NetlinkError::Refused {
                        request: name.to_string(),
                        explanation: explanation(message, ERROR_FIXED),
                        source: io::Error::from_raw_os_error(code.saturating_neg()),
                    });
                }
                is_through |= at == last;
            } else if let Ok(list) = answer {
                list.push(Message {
                    kind: message.kind,
                    content: message.content.to_vec(),
                });
            }
        }
        is_through
    }

    /// In the order of the requests.
    pub fn finish(self) -> Vec<Answer> {
        self.answers
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NLM_F_ACK_TLVS;
    use rustix::io::Errno;

    use super::*;

    /// An error as the kernel writes it, with its words.
    fn error(sequence: u32, errno: Option<Errno>, words: &str) -> Vec<u8> {
        let mut content = errno
            .map_or(0, |errno| -errno.raw_os_error())
            .to_ne_bytes()
            .to_vec();
        content.extend([0; 16]);
        let mut flags = 0;
        if !words.is_empty() {
            flags = NLM_F_ACK_TLVS;
            let length = u16::try_from(4 + words.len() + 1).unwrap();
            content.extend(length.to_ne_bytes());
            content.extend(1u16.to_ne_bytes());
            content.extend(words.as_bytes());
            content.push(0);
            content.resize(content.len().next_multiple_of(4), 0);
        }
        message(NLMSG_ERROR, flags, sequence, &content)
    }

    fn message(kind: u16, flags: u16, sequence: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(16 + content.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(content);
        bytes
    }

    fn three(first: u32) -> Answers {
        let names = ["one", "two", "three"].map(|name| Name::from(move || name.to_owned()));
        Answers::new(first, names.into())
    }

    #[test]
    fn an_error_is_the_answer_to_the_request_of_its_number() {
        let mut answers = three(40);
        assert!(!answers.take(&error(41, Some(Errno::NETUNREACH), "no such gateway"), 2));
        assert!(answers.take(&error(42, None, ""), 2));
        let answers = answers.finish();
        assert!(answers[0].is_ok() && answers[2].is_ok());
        let refused = answers[1].as_ref().unwrap_err();
        assert_eq!(refused.to_string(), "two (no such gateway)");
        assert!(refused.is(Errno::NETUNREACH));
    }

    #[test]
    fn an_error_of_the_last_request_ends_it_too() {
        let mut answers = three(u32::MAX);
        assert!(answers.take(&error(1, Some(Errno::SRCH), ""), 2));
        let refused = answers.finish().pop().unwrap().unwrap_err();
        assert_eq!(refused.to_string(), "three");
        assert!(refused.is_gone() && !refused.is_taken());
    }

    #[test]
    fn answers_to_an_earlier_batch_are_left_out() {
        let mut answers = three(40);
        for stale in [39, 43, 7] {
            assert!(!answers.take(&error(stale, Some(Errno::PERM), ""), 2));
        }
        assert!(answers.finish().iter().all(Result::is_ok));
    }

    #[test]
    fn messages_and_errors_share_a_datagram() {
        let mut datagram = message(16, 0, 40, &[1, 2, 3, 4]);
        datagram.extend(error(42, None, ""));
        let mut answers = three(40);
        assert!(answers.take(&datagram, 2));
        let expected = Message {
            kind: 16,
            content: vec![1, 2, 3, 4],
        };
        assert_eq!(answers.finish().remove(0).unwrap(), [expected]);
    }
}
