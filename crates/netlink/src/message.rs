//! Writing messages. All numbers are in the machine's own order, everything begins at a multiple of four.

/// A message's kinds, as far as they are used.
pub const ERROR: u16 = 2;
pub const DONE: u16 = 3;
pub const NEW_LINK: u16 = 16;
pub const DEL_LINK: u16 = 17;
pub const GET_LINK: u16 = 18;
pub const NEW_ADDRESS: u16 = 20;
pub const GET_ADDRESS: u16 = 22;
pub const NEW_ROUTE: u16 = 24;
pub const GET_ROUTE: u16 = 26;
pub const NEW_NEIGHBOUR: u16 = 28;

/// What is asked of the kernel besides an answer.
pub const CREATE: u16 = 0x400 | 0x200;
/// There may be one already, which gives way.
pub const PUT: u16 = 0x400 | 0x100;
pub const CHANGE: u16 = 0;
pub const GET: u16 = 0;
pub const LIST: u16 = 0x300;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const HEADER: usize = 16;

/// Messages that are sent together.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// A message with a fixed part and attributes.
    pub fn message(&mut self, kind: u16, flags: u16, fixed: &[u8], attributes: impl FnOnce(&mut Attributes<'_>)) {
        let start = self.bytes.len();
        // A listing ends by itself: an acknowledgement would come on top of that.
        let flags = flags | REQUEST | if flags == LIST { 0 } else { ACKNOWLEDGE };
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.count.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        debug_assert_eq!(self.bytes.len() - start, HEADER);
        self.bytes.extend_from_slice(fixed);
        pad(&mut self.bytes);
        attributes(&mut Attributes(&mut self.bytes));
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self.count += 1;
    }
}

/// Of the message, or of the attribute, that is being written.
#[derive(Debug)]
pub struct Attributes<'a>(&'a mut Vec<u8>);

impl Attributes<'_> {
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |inner| inner.0.extend_from_slice(value));
    }

    pub fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// The kernel's texts end with a zero.
    pub fn text(&mut self, kind: u16, value: &str) {
        self.nested(kind, |inner| {
            inner.0.extend_from_slice(value.as_bytes());
            inner.0.push(0);
        });
    }

    pub fn nested(&mut self, kind: u16, content: impl FnOnce(&mut Attributes<'_>)) {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        content(&mut Attributes(self.0));
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        if let Some(place) = self.0.get_mut(start..start + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        pad(self.0);
    }

    /// A fixed part in the middle of attributes.
    pub fn fixed(&mut self, fixed: &[u8]) {
        self.0.extend_from_slice(fixed);
        pad(self.0);
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
