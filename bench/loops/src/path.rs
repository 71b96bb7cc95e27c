//! What all candidates share: the protocol, the data and the log.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

/// How much of the log is allocated before the run, and where writing starts over: growing a file costs more to sync.
const LOG_BYTES: u64 = 64 << 20;

/// How much is read from a socket at once.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// A file written in a circle. What a turn of the loop appends is one write and one fdatasync.
pub(crate) struct Log {
    file: File,
    at: u64,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Log> {
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("could not create {}", path.display()))?;
        // Written, not only allocated: the first write to an unwritten extent changes metadata.
        let zeros = vec![0; 1 << 20];
        for at in (0..LOG_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Log { file, at: 0 })
    }

    /// Where the next batch goes.
    pub(crate) fn place(&mut self, count: usize) -> u64 {
        if self.at + count as u64 > LOG_BYTES {
            self.at = 0;
        }
        let place = self.at;
        self.at += count as u64;
        place
    }

    /// Appends a batch and makes it durable.
    pub(crate) fn append(&mut self, batch: &[u8]) -> Result<()> {
        let place = self.place(batch.len());
        self.file.write_all_at(batch, place).context("log write")?;
        self.file.sync_data().context("log sync")
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Keys and values.
#[derive(Default)]
pub(crate) struct Data {
    map: HashMap<Box<[u8]>, Box<[u8]>>,
}

/// What a connection has received and not yet understood, and what it is owed.
#[derive(Default)]
pub(crate) struct Client {
    input: Vec<u8>,
    pub(crate) output: Vec<u8>,
}

impl Client {
    /// Carries out every complete command of the input: answers go to `output`, writes to `batch`. Returns whether
    /// anything was written.
    pub(crate) fn receive(&mut self, bytes: &[u8], data: &mut Data, batch: &mut Vec<u8>) -> Result<bool> {
        self.input.extend_from_slice(bytes);
        let mut used = 0;
        let before = batch.len();
        while let Some((words, next)) = command(&self.input, used)? {
            match words.as_slice() {
                [name, key, value] if name.eq_ignore_ascii_case(b"SET") => {
                    batch.extend_from_slice(&(key.len() as u32).to_le_bytes());
                    batch.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    batch.extend_from_slice(key);
                    batch.extend_from_slice(value);
                    data.map.insert((*key).into(), (*value).into());
                    self.output.extend_from_slice(b"+OK\r\n");
                }
                [name, key] if name.eq_ignore_ascii_case(b"GET") => match data.map.get(*key) {
                    Some(value) => {
                        self.output.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                        self.output.extend_from_slice(value);
                        self.output.extend_from_slice(b"\r\n");
                    }
                    None => self.output.extend_from_slice(b"$-1\r\n"),
                },
                _ => self.output.extend_from_slice(b"-ERR only SET and GET\r\n"),
            }
            used = next;
        }
        self.input.drain(..used);
        Ok(batch.len() > before)
    }
}

type Words<'a> = Vec<&'a [u8]>;

/// The words of the command that starts at `at`, and where it ends; `None` if it is not complete.
fn command(input: &[u8], at: usize) -> Result<Option<(Words<'_>, usize)>> {
    let Some((count, mut at)) = number(input, at, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some((bytes, start)) = number(input, at, b'$')? else { return Ok(None) };
        if input.len() < start + bytes + 2 {
            return Ok(None);
        }
        words.push(&input[start..start + bytes]);
        at = start + bytes + 2;
    }
    Ok(Some((words, at)))
}

fn number(input: &[u8], at: usize, mark: u8) -> Result<Option<(usize, usize)>> {
    let rest = &input[at..];
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    anyhow::ensure!(rest[0] == mark && end >= 2, "not the Redis protocol");
    let text = std::str::from_utf8(&rest[1..end - 1])?;
    Ok(Some((text.parse().context("not a length")?, at + end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_come_in_pieces_and_several_at_once() {
        let (mut client, mut data, mut batch) = (Client::default(), Data::default(), Vec::new());
        let text = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        for piece in text.chunks(5) {
            client.receive(piece, &mut data, &mut batch).unwrap();
        }
        assert_eq!(client.output, b"+OK\r\n$2\r\nvv\r\n");
        assert_eq!(batch, b"\x01\0\0\0\x02\0\0\0kvv");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Client::default().receive(b"GET k\r\n", &mut Data::default(), &mut Vec::new()).is_err());
    }
}
