//! Requests that go to the kernel together.

use std::fmt;
use std::ops::Range;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;

/// The most requests in one send. The answers to all of them have to fit into the socket's buffer,
/// because the kernel does all of a send before anybody can read.
pub const MAX_REQUESTS_PER_SEND: usize = 1024;
/// The most bytes in one send: well below the 208 KiB that a socket takes by default.
const MAX_BYTES_PER_SEND: usize = 128 << 10;

/// Requests that go to the kernel in as few sends as possible: one takes up to 1,024 requests. The
/// kernel tries all of them in order, even after one that fails.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    start: usize,
    name: Name,
}

/// What a request is called in errors. Few requests fail, so the text is made only then.
pub struct Name(Box<dyn Fn() -> String + Send>);

/// A batch that is ready to go.
#[derive(Debug)]
pub struct Numbered {
    pub bytes: Vec<u8>,
    /// What each request is called in errors.
    pub names: Vec<Name>,
    pub sends: Vec<OneSend>,
}

/// What one send carries.
#[derive(Debug, PartialEq, Eq)]
pub struct OneSend {
    pub bytes: Range<usize>,
    /// Which requests of the batch.
    pub requests: Range<usize>,
}

impl Batch {
    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether it holds no request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request. Its name says in errors what was asked, and of what.
    pub(crate) fn push(
        &mut self,
        name: impl Fn() -> String + Send + 'static,
        flags: u16,
        message: RouteNetlinkMessage,
    ) {
        let start = self.bytes.len();
        let name = Name::from(name);
        self.requests.push(Request { start, name });
        append(&mut self.bytes, flags, 0, message);
    }

    /// Gives the requests their sequence numbers, from `first` on, and cuts the batch into sends.
    ///
    /// The kernel always answers a request that fails. The last request of a send also asks for an
    /// acknowledgement, which says that the kernel has finished all of them.
    pub(crate) fn number(mut self, first: u32) -> Numbered {
        let mut sends: Vec<OneSend> = Vec::new();
        let mut sequence = first;
        for (at, request) in self.requests.iter().enumerate() {
            let next = self.requests.get(at + 1);
            let end = next.map_or(self.bytes.len(), |next| next.start);
            let bytes = self.bytes.get_mut(request.start..end).unwrap_or_default();
            let mut message = NetlinkBuffer::new(bytes);
            message.set_sequence_number(sequence);
            sequence = sequence.wrapping_add(1);
            let full = |send: &OneSend| {
                send.requests.len() == MAX_REQUESTS_PER_SEND
                    || end - send.bytes.start > MAX_BYTES_PER_SEND
            };
            match sends.last_mut() {
                Some(send) if !full(send) => {
                    send.bytes.end = end;
                    send.requests.end = at + 1;
                }
                _ => sends.push(OneSend {
                    bytes: request.start..end,
                    requests: at..at + 1,
                }),
            }
        }
        for send in &sends {
            let last = self.requests.get(send.requests.end - 1);
            let start = last.map_or(0, |request| request.start);
            if let Some(bytes) = self.bytes.get_mut(start..send.bytes.end) {
                let mut message = NetlinkBuffer::new(bytes);
                message.set_flags(message.flags() | NLM_F_ACK);
            }
        }
        let names = self
            .requests
            .into_iter()
            .map(|request| request.name)
            .collect();
        Numbered {
            bytes: self.bytes,
            names,
            sends,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.0)())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&(self.0)(), f)
    }
}

impl<F: Fn() -> String + Send + 'static> From<F> for Name {
    fn from(name: F) -> Self {
        Self(Box::new(name))
    }
}

/// Appends a request.
pub fn append(bytes: &mut Vec<u8>, flags: u16, sequence: u32, message: RouteNetlinkMessage) {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let start = bytes.len();
    bytes.resize((start + message.buffer_len()).next_multiple_of(4), 0);
    message.serialize(bytes.get_mut(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::messages;
    use crate::routes::Route;

    fn routes(count: u32) -> Batch {
        let mut batch = Batch::default();
        for number in 0..count {
            let address = std::net::Ipv6Addr::from(0xfd64_u128 << 112 | u128::from(number) << 64);
            let mut route = Route::to(berth_addr::Prefix::new(address.into(), 64).unwrap());
            route.gateway = Some("fe80::1".parse().unwrap());
            route.link = Some(7);
            route.table = 10_000;
            batch.add_route(&route);
        }
        batch
    }

    #[test]
    fn a_thousand_routes_are_one_send() {
        let numbered = routes(1000).number(0);
        let whole = OneSend {
            bytes: 0..numbered.bytes.len(),
            requests: 0..1000,
        };
        assert_eq!(numbered.sends, [whole]);
    }

    #[test]
    fn no_send_has_more_than_the_socket_takes() {
        let numbered = routes(5000).number(0);
        assert_eq!(numbered.sends.len(), 5);
        let mut next = OneSend {
            bytes: 0..0,
            requests: 0..0,
        };
        for send in &numbered.sends {
            assert_eq!(
                (send.bytes.start, send.requests.start),
                (next.bytes.end, next.requests.end)
            );
            assert!(send.requests.len() <= MAX_REQUESTS_PER_SEND);
            assert!(send.bytes.len() <= MAX_BYTES_PER_SEND);
            next = OneSend {
                bytes: send.bytes.clone(),
                requests: send.requests.clone(),
            };
        }
        assert_eq!(
            (next.bytes.end, next.requests.end),
            (numbered.bytes.len(), 5000)
        );
        let mut long = Batch::default();
        for _ in 0..1000 {
            long.set_alias(1, &"x".repeat(200));
        }
        assert_eq!(long.number(0).sends.len(), 2);
    }

    #[test]
    fn only_the_last_request_of_a_send_asks_for_more_than_errors() {
        let numbered = routes(1025).number(0);
        let asking: Vec<u32> = messages(&numbered.bytes)
            .filter(|message| message.flags & NLM_F_ACK != 0)
            .map(|message| message.sequence)
            .collect();
        assert_eq!(asking, [1023, 1024]);
    }

    #[test]
    fn sequence_numbers_go_on_past_the_greatest() {
        let numbered = routes(3).number(u32::MAX - 1);
        let sequences: Vec<u32> = messages(&numbered.bytes)
            .map(|message| message.sequence)
            .collect();
        assert_eq!(sequences, [u32::MAX - 1, u32::MAX, 0]);
    }

    #[test]
    fn an_empty_batch_is_not_sent() {
        let batch = Batch::default();
        assert!(batch.is_empty());
        assert_eq!(batch.number(0).sends, []);
    }
}
