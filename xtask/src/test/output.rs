//! Shows the output of concurrent parts one after the other: the first unfinished part as it comes,
//! the others in turn.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The output of one part. Its turn ends when this is dropped.
#[derive(Debug)]
pub struct Shown {
    bytes: Sender<Vec<u8>>,
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Without a printer the output is lost, which does no harm.
        drop(self.bytes.send(bytes.to_owned()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct Printer {
    parts: Vec<Receiver<Vec<u8>>>,
}

/// Makes the outputs of this many parts, in the order to show them.
pub fn in_order(parts: usize) -> (Vec<Shown>, Printer) {
    let channels = (0..parts).map(|_| {
        let (bytes, received) = channel();
        (Shown { bytes }, received)
    });
    let (shown, parts) = channels.unzip();
    (shown, Printer { parts })
}

impl Printer {
    /// Returns when the last part has ended.
    pub fn print_to(self, out: &mut impl Write) -> io::Result<()> {
        for part in self.parts {
            for bytes in part {
                out.write_all(&bytes)?;
                out.flush()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_the_same_time_is_shown_one_after_the_other() {
        let (shown, printer) = in_order(2);
        let [mut first, mut second] = <[Shown; 2]>::try_from(shown).unwrap();
        writeln!(second, "second begins").unwrap();
        writeln!(first, "first begins").unwrap();
        writeln!(second, "second ends").unwrap();
        drop(second);
        writeln!(first, "first ends").unwrap();
        drop(first);
        let mut out = Vec::new();
        printer.print_to(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, "first begins\nfirst ends\nsecond begins\nsecond ends\n");
    }
}
