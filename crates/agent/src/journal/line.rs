//! One line: `checksum length content`, for people to read and for us to trust.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use berth_api::cni::{Attachment, PodRef};

use super::{Entry, Held};

/// The first word of a journal, before the number of its format.
const TITLE: &str = "berth-journal-";
/// Raised when a line changes in a way that an older agent can't read. The frame of the first line,
/// and its first word, stay what they are.
pub const FORMAT: u64 = 1;

/// Stands for a text that is empty.
const NONE: &str = "-";

/// `xxxxxxxx nnnnn `: the checksum and the length of the content, its newline included.
const PREFIX: usize = 15;

/// The greatest number of five digits.
const LONGEST: usize = 99_999;

/// An assignment has the most words.
const MAX_WORDS: usize = 10;

#[derive(Debug)]
pub enum Line<'a> {
    First { boot: Cow<'a, str>, id: u64 },
    Entry(Cow<'a, Entry>),
}

impl<'a> Line<'a> {
    pub fn first(boot: &'a str, id: u64) -> Self {
        let boot = Cow::Borrowed(boot);
        Self::First { boot, id }
    }

    pub fn of(entry: &'a Entry) -> Self {
        Self::Entry(Cow::Borrowed(entry))
    }

    /// The first line and its length; `None` when it is partial, and an error when it is damaged.
    pub fn read(bytes: &[u8]) -> Result<Option<(Line<'static>, usize)>, &'static str> {
        let prefix = bytes.get(..PREFIX).and_then(|prefix| str::from_utf8(prefix).ok());
        let prefix = prefix.and_then(parse_prefix);
        let content = prefix.and_then(|(_, length)| bytes.get(PREFIX..PREFIX + length));
        let (Some((checksum, length)), Some(content)) = (prefix, content) else {
            // A line ends with its first newline: with one, all of it should be there.
            return if bytes.contains(&b'\n') {
                Err("it is too short, or does not begin as a line does")
            } else {
                Ok(None)
            };
        };
        if sum(length, content) != checksum {
            return Err("its checksum is another one");
        }
        let content = content.strip_suffix(b"\n").ok_or("it has no end")?;
        let content = str::from_utf8(content).map_err(|_| "it is not UTF-8")?;
        let line = parse(content).ok_or("its content is not known")?;
        Ok(Some((line, PREFIX + length)))
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match self {
            Self::First { boot, id } => format!("{TITLE}{FORMAT} {boot} {id:016x}\n"),
            Self::Entry(entry) => write_entry(entry),
        };
        let checksum = sum(content.len(), content.as_bytes());
        write!(f, "{checksum:08x} {:05} {content}", content.len())
    }
}

/// The format of a journal that begins with these bytes; [`FORMAT`] if they are damaged or no
/// journal.
pub fn format_of(bytes: &[u8]) -> u64 {
    let prefix = bytes.get(..PREFIX).and_then(|prefix| str::from_utf8(prefix).ok());
    let number = prefix.and_then(parse_prefix).and_then(|(checksum, length)| {
        let content = bytes.get(PREFIX..PREFIX + length)?;
        let title = str::from_utf8(content).ok()?.split_whitespace().next()?;
        let is_whole = sum(length, content) == checksum;
        title.strip_prefix(TITLE).filter(|_| is_whole)?.parse().ok()
    });
    number.unwrap_or(FORMAT)
}

fn parse_prefix(prefix: &str) -> Option<(u32, usize)> {
    let (checksum, rest) = prefix.split_at_checked(8)?;
    let length = rest.strip_prefix(' ')?.strip_suffix(' ')?;
    // A sign or a blank is not allowed: there is one way to write a number.
    let digits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !digits(checksum) || !digits(length) {
        return None;
    }
    Some((u32::from_str_radix(checksum, 16).ok()?, length.parse().ok()?))
}

fn write_entry(entry: &Entry) -> String {
    match entry {
        Entry::Assigned {
            at,
            started,
            attachment: Attachment { container, interface },
            network,
            pod,
            held,
        } => format!(
            "{at} assigned {started} {container} {interface} {} {} {} {} {}\n",
            or_none(network),
            or_none(&pod.namespace),
            or_none(&pod.name),
            or_none(&pod.uid),
            or_none(&write_held(held)),
        ),
        Entry::Released {
            at,
            started,
            attachment: Attachment { container, interface },
        } => format!("{at} released {started} {container} {interface}\n"),
        Entry::Freed { at, held } => format!("{at} freed {}\n", or_none(&write_held(held))),
        Entry::Quarantined => "0 quarantined\n".to_owned(),
        Entry::Settled => "0 settled\n".to_owned(),
        Entry::Releasing { at, names } => format!("{at} releasing {}\n", or_none(&names.join(","))),
    }
}

fn write_held(held: &[Held]) -> String {
    let held: Vec<String> =
        held.iter().map(|one| format!("{}={}", one.name, one.address)).collect();
    held.join(",")
}

/// Whether reading the entry's line gives the same entry.
pub fn can_be_written(entry: &Entry) -> bool {
    let is_word =
        |text: &str| !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    let is_name = |text: &str| !text.is_empty() && text != NONE && is_word(text);
    // An interface may be called `-`: these two fields are never empty.
    let is_given = |text: &str| !text.is_empty() && is_word(text);
    let is_attachment = |one: &Attachment| is_given(&one.container) && is_given(&one.interface);
    let is_listed = |name: &str| is_name(name) && !name.contains([',', '=']);
    let fits = |entry: &Entry| write_entry(entry).len() <= LONGEST;
    let words = match entry {
        Entry::Released { attachment, .. } => is_attachment(attachment),
        Entry::Assigned {
            attachment,
            network,
            pod,
            held,
            ..
        } => {
            let words = [network, &pod.namespace, &pod.name, &pod.uid];
            is_attachment(attachment)
                && words.into_iter().all(|text| is_word(text) && text != NONE)
                && held.iter().all(|one| is_listed(&one.name))
        }
        Entry::Quarantined | Entry::Settled => true,
        Entry::Freed { held, .. } => held.iter().all(|one| is_listed(&one.name)),
        Entry::Releasing { names, .. } => names.iter().all(|name| is_listed(name)),
    };
    words && fits(entry)
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

fn parse(content: &str) -> Option<Line<'static>> {
    let mut words = [""; MAX_WORDS];
    let (mut count, mut start) = (0, 0);
    // Words are short: a search for each next blank would take longer than to look at every byte.
    let blanks = content.bytes().enumerate().filter(|(_, byte)| *byte == b' ');
    for end in blanks.map(|(at, _)| at).chain([content.len()]) {
        *words.get_mut(count)? = content.get(start..end)?;
        (count, start) = (count + 1, end + 1);
    }
    let words = words.get(..count)?;
    if let [title, boot, id] = words
        && title
            .strip_prefix(TITLE)
            .is_some_and(|number| number.parse() == Ok(FORMAT))
    {
        let boot = Cow::Owned((*boot).to_owned());
        let id = u64::from_str_radix(id, 16).ok()?;
        return Some(Line::First { boot, id });
    }
    let entry = match words {
        [at, "released", started, container, interface] => Entry::Released {
            at: at.parse().ok()?,
            started: started.parse().ok()?,
            attachment: attachment(container, interface),
        },
        [
            at,
            "assigned",
            started,
            container,
            interface,
            network,
            namespace,
            name,
            uid,
            held,
        ] => Entry::Assigned {
            at: at.parse().ok()?,
            started: started.parse().ok()?,
            attachment: attachment(container, interface),
            network: given(network),
            pod: PodRef {
                namespace: given(namespace),
                name: given(name),
                uid: given(uid),
            },
            held: parse_held(held)?,
        },
        ["0", "quarantined"] => Entry::Quarantined,
        ["0", "settled"] => Entry::Settled,
        [at, "freed", held] => Entry::Freed {
            at: at.parse().ok()?,
            held: parse_held(held)?,
        },
        [at, "releasing", names] => Entry::Releasing {
            at: at.parse().ok()?,
            names: given(names)
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        },
        _ => return None,
    };
    Some(Line::Entry(Cow::Owned(entry)))
}

fn attachment(container: &str, interface: &str) -> Attachment {
    Attachment {
        container: container.to_owned(),
        interface: interface.to_owned(),
    }
}

fn given(text: &str) -> String {
    if text == NONE { String::new() } else { text.to_owned() }
}

fn parse_held(text: &str) -> Option<Vec<Held>> {
    if text == NONE {
        return Some(Vec::new());
    }
    let one = |text: &str| {
        let (name, address) = text.split_once('=')?;
        Some(Held {
            name: name.to_owned(),
            address: address.parse::<IpAddr>().ok()?,
        })
    };
    text.split(',').map(one).collect()
}

/// The sum covers the length too, so that a changed length is noticed.
fn sum(length: usize, content: &[u8]) -> u32 {
    let length = u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes();
    !update(update(!0, &length), content)
}

/// Takes eight bytes at a time, because a start reads the whole journal.
fn update(sum: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let sum = eights.iter().fold(sum, |sum, eight| {
        let word = u64::from_le_bytes(*eight) ^ u64::from(sum);
        let bytes = word.to_le_bytes().into_iter().zip(TABLES.iter().rev());
        bytes.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(sum, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        TABLES[0][usize::from(low ^ byte)] ^ (sum >> 8)
    })
}

/// CRC-32C: it detects every burst of up to 32 bits. The n-th table is for a byte with n bytes
/// after it.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0;
    let mut first: u32 = 0;
    while byte < 256 {
        let mut sum = first;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0x82f6_3b78
            } else {
                sum >> 1
            };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
        first += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            let [low, ..] = before.to_le_bytes();
            tables[table][byte] = tables[0][low as usize] ^ (before >> 8);
            byte += 1;
        }
        table += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_everybody_has() {
        // The check value that the polynomial is published with.
        assert_eq!(!update(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!update(update(!0, b"123"), b"456789"), 0xe306_9283);
    }
}
