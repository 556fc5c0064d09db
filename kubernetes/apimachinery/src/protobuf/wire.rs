//! The wire format: a message is a sequence of numbered values. This module only reads it, and does
//! not interpret the values.

/// One value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A string, bytes, a nested message or packed numbers: only the reader of the field can tell.
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it ends in the middle of a value")]
    Truncated,
    #[error("a number is longer than 64 bits")]
    Overlong,
    #[error("wire type {0} is not in use")]
    WireType(u8),
    #[error("field number {0} is out of range")]
    Number(u64),
}

/// Reads the values of a message, one after the other.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or(WireError::Number(key >> 3))?;
        let wire = match (key & 7).to_le_bytes()[0] {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(WireError::WireType(other)),
        };
        Ok(Some((number, wire)))
    }

    /// The next packed number, `None` at the end.
    pub fn packed(&mut self) -> Result<Option<u64>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(WireError::Overlong);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Overlong)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &[u8]) -> Result<Vec<(u32, Wire<'_>)>, WireError> {
        let mut reader = Reader::new(message);
        let mut fields = Vec::new();
        while let Some(field) = reader.field()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn every_wire_type_in_use_is_read() {
        let message = [
            0x08, 0xac, 0x02, // 1: varint 300
            0x12, 0x02, b'h', b'i', // 2: bytes
            0x1d, 1, 0, 0, 0, // 3: fixed32
            0x21, 2, 0, 0, 0, 0, 0, 0, 0, // 4: fixed64
        ];
        assert_eq!(
            fields(&message).unwrap(),
            [
                (1, Wire::Varint(300)),
                (2, Wire::Bytes(b"hi")),
                (3, Wire::Fixed32(1)),
                (4, Wire::Fixed64(2)),
            ]
        );
    }

    #[test]
    fn the_largest_number_is_read_and_a_larger_one_refused() {
        let mut message = vec![0x08];
        message.extend([0xff; 9]);
        message.push(0x01);
        assert_eq!(fields(&message).unwrap(), [(1, Wire::Varint(u64::MAX))]);
        message[10] = 0x02;
        assert_eq!(fields(&message).unwrap_err(), WireError::Overlong);
        message[10] = 0x81;
        assert_eq!(fields(&message).unwrap_err(), WireError::Overlong);
    }

    #[test]
    fn a_message_cut_short_is_refused() {
        for message in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 0x05, b'h'],
            &[0x1d, 1, 2],
            &[0x21, 1, 2, 3, 4, 5, 6, 7],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ] {
            assert_eq!(fields(message).unwrap_err(), WireError::Truncated);
        }
    }

    #[test]
    fn groups_and_field_zero_are_refused() {
        assert_eq!(fields(&[0x0b]).unwrap_err(), WireError::WireType(3));
        assert_eq!(fields(&[0x00, 0x01]).unwrap_err(), WireError::Number(0));
    }
}
