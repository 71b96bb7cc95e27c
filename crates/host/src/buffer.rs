//! Bytes on their way out of a connection.

use std::io::{self, Write};

/// Capacity that an empty buffer may keep.
const KEPT_BYTES: usize = 16 << 10;

/// Bytes waiting to be written, in order.
#[derive(Debug, Default)]
pub(crate) struct OutBuffer {
    bytes: Vec<u8>,
    /// How many of `bytes` are written already.
    written: usize,
}

impl OutBuffer {
    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.written
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Where more can be appended.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn clear(&mut self) {
        *self = OutBuffer::default();
    }

    /// Writes until all is out or the receiver takes no more; returns how many bytes went.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn flush(&mut self, mut stream: impl Write) -> io::Result<usize> {
        let mut total = 0;
        while !self.is_empty() {
            match stream.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    total += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.compact();
        Ok(total)
    }

    fn compact(&mut self) {
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.written = 0;
        } else if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then blocks.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.1);
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.1 -= count;
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writes_in_order_through_a_narrow_stream() {
        let mut buffer = OutBuffer::default();
        let mut stream = Narrow(Vec::new(), 0);
        let mut expected = Vec::new();
        for round in 0..50_u8 {
            buffer.tail().extend_from_slice(&[round; 7]);
            expected.extend_from_slice(&[round; 7]);
            stream.1 = 5;
            assert_eq!(buffer.flush(&mut stream).expect("open"), 5);
        }
        stream.1 = usize::MAX;
        buffer.flush(&mut stream).expect("open");
        assert!(buffer.is_empty());
        assert_eq!(stream.0, expected);
    }

    #[test]
    fn a_grown_buffer_is_let_go() {
        let mut buffer = OutBuffer::default();
        buffer.tail().resize(1 << 20, 0);
        buffer.flush(io::sink()).expect("open");
        assert!(buffer.bytes.capacity() <= KEPT_BYTES);
    }
}
