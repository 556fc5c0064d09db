//! As much of HTTP/1.1 as one request on a Unix socket needs. The whole exchange has one deadline
//! and answers have a maximum length: neither a silent agent nor a talkative one holds up a
//! runtime.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use berth_api::agent::MAX_BYTES;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error("{}", std::io::Error::from(*.0))]
    Failed(Errno),
    #[error("it took longer than {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("the connection ended before the answer did")]
    Cut,
    #[error("the answer is not HTTP")]
    NotHttp,
    #[error("the answer is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the answer can't be decoded: {0}")]
    Unreadable(serde_json::Error),
}

pub fn exchange(
    path: &str,
    method: &str,
    target: &str,
    body: &[u8],
    limit: Duration,
) -> Result<Answer, NoAnswer> {
    let mut stream = Stream::connect(path, limit)?;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: berth\r\nConnection: \
         close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let question = [head.as_bytes(), body].concat();
    // An agent that refuses a request may answer before it has read all of it.
    let sent = stream.send(&question);
    match (stream.receive(), sent) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
    }
}

struct Stream {
    socket: OwnedFd,
    limit: Duration,
    deadline: Instant,
}

impl Stream {
    fn connect(path: &str, limit: Duration) -> Result<Self, NoAnswer> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let stream = Self {
            socket: socket.map_err(NoAnswer::Failed)?,
            limit,
            deadline: Instant::now() + limit,
        };
        let address = SocketAddrUnix::new(path).map_err(NoAnswer::Failed)?;
        // If the socket's queue is full, connecting waits as long as the send timeout allows.
        stream.again(Timeout::Send, || connect(&stream.socket, &address))?;
        Ok(stream)
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), NoAnswer> {
        while !bytes.is_empty() {
            let sent =
                self.again(Timeout::Send, || send(&self.socket, bytes, SendFlags::NOSIGNAL))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Answer, NoAnswer> {
        let mut received = Vec::with_capacity(1024);
        let mut buffer = [0; 4096];
        loop {
            let (count, _) = self.again(Timeout::Recv, || {
                recv(&self.socket, &mut buffer[..], RecvFlags::empty())
            })?;
            received.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if let Some(answer) = parse(&received, count == 0)? {
                return Ok(answer);
            }
        }
    }

    /// Repeats a step that was interrupted. The kernel may take only the time that is left.
    fn again<T>(
        &self,
        which: Timeout,
        mut step: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, NoAnswer> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoAnswer::TimedOut(self.limit));
            }
            // The kernel counts in microseconds, and 0 means no timeout.
            let left = left.max(Duration::from_micros(1));
            set_socket_timeout(&self.socket, which, Some(left)).map_err(NoAnswer::Failed)?;
            match step() {
                Err(Errno::INTR) => {}
                Err(error) if std::io::Error::from(error).kind() == ErrorKind::WouldBlock => {
                    return Err(NoAnswer::TimedOut(self.limit));
                }
                Err(error) => return Err(NoAnswer::Failed(error)),
                Ok(done) => return Ok(done),
            }
        }
    }
}

/// `None`: there is more to come.
fn parse(received: &[u8], ended: bool) -> Result<Option<Answer>, NoAnswer> {
    const START: &[u8] = b"HTTP/1.";
    const HEAD_LENGTH: usize = 16 << 10;
    if !received.iter().zip(START).all(|(byte, expected)| byte == expected) {
        return Err(NoAnswer::NotHttp);
    }
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match (ended, received.len() > HEAD_LENGTH) {
            (_, true) => Err(NoAnswer::NotHttp),
            (true, _) => Err(NoAnswer::Cut),
            (false, false) => Ok(None),
        };
    };
    let (head, rest) = received.split_at(end);
    let body = rest.get(4..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| NoAnswer::NotHttp)?;
    let (status, length) = read_head(head).ok_or(NoAnswer::NotHttp)?;
    let answer = |body: &[u8]| {
        Some(Answer {
            status,
            body: body.to_vec(),
        })
    };
    match length {
        _ if body.len() > MAX_BYTES => Err(NoAnswer::TooLong),
        Some(length) if length > MAX_BYTES => Err(NoAnswer::TooLong),
        Some(length) => match body.get(..length) {
            Some(body) => Ok(answer(body)),
            None if ended => Err(NoAnswer::Cut),
            None => Ok(None),
        },
        // Without a length, the body ends with the connection.
        None if ended => Ok(answer(body)),
        None => Ok(None),
    }
}

/// The status, and the length of the body if the head has it. The agent never sends chunked
/// answers.
fn read_head(head: &str) -> Option<(u16, Option<usize>)> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let version = first.next()?;
    let status = first.next().filter(|status| status.len() == 3)?.parse().ok()?;
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return None;
    }
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().ok()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return None;
        }
    }
    Some((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, ended: bool) -> Result<Option<Answer>, String> {
        parse(text.as_bytes(), ended).map_err(|error| error.to_string())
    }

    fn answer(status: u16, body: &str) -> Result<Option<Answer>, String> {
        let body = body.as_bytes().to_vec();
        Ok(Some(Answer { status, body }))
    }

    #[test]
    fn an_answer_ends_where_it_says_or_with_the_connection() {
        let head = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\n";
        assert_eq!(of(&format!("{head}{{}}more"), false), answer(200, "{}"));
        assert_eq!(of(&format!("{head}{{"), false), Ok(None));
        assert_eq!(of(head, true), Err(NoAnswer::Cut.to_string()));
        assert_eq!(of("HTTP/1.0 503 No\r\n\r\n{}", false), Ok(None));
        assert_eq!(of("HTTP/1.0 503 No\r\n\r\n{}", true), answer(503, "{}"));
    }

    #[test]
    fn a_partial_http_response_is_never_taken_for_a_whole_one() {
        let whole = "HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nhello";
        for end in 0..whole.len() {
            assert_eq!(of(&whole[..end], false), Ok(None), "{end}");
            assert_eq!(of(&whole[..end], true), Err(NoAnswer::Cut.to_string()), "{end}");
        }
        assert_eq!(of(whole, false), answer(409, "hello"));
    }

    #[test]
    fn what_is_no_http_or_has_no_end_is_no_answer() {
        for text in [
            "garbage",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.x 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(of(text, false), Err(NoAnswer::NotHttp.to_string()), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(20_000));
        assert_eq!(of(&endless, false), Err(NoAnswer::NotHttp.to_string()));
        let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MAX_BYTES + 1);
        assert_eq!(of(&long, false), Err(NoAnswer::TooLong.to_string()));
    }
}
