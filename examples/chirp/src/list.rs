//! Where data lies: lists of lines, cut into chunks that are values of their own.
//!
//! | key | value |
//! |---|---|
//! | `chirp:{alice}:posts` | the number of the chunk with alice's newest posts, the *tail*; absent if there are none |
//! | `chirp:{alice}:posts:0`, `:1`, ... | her posts, a line each, oldest first; only the tail grows, and the next begins where it is full |
//! | `chirp:{alice}:follows:0`, ... | whom she follows, a name a line |
//!
//! The braces keep all keys of a user in one slot, so that a post is a transaction of one bucket.

use bytes::Bytes;

use crate::{FOLLOWS_MAX, NAME_LENGTH_MAX, User};

/// No value is longer.
pub(crate) const CHUNK_BYTES_MAX: usize = 8 << 10;

/// The names that a user follows lie in so many chunks: enough for the longest names, since a name goes where there is room.
pub(crate) const FOLLOW_CHUNKS: u64 = 3;
const _: () = assert!(
    FOLLOWS_MAX * (NAME_LENGTH_MAX + 1) <= FOLLOW_CHUNKS as usize * (CHUNK_BYTES_MAX - NAME_LENGTH_MAX)
);

/// What is stored under this key was not written by this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged(pub(crate) String);

/// The key that names the tail of a user's posts.
pub(crate) fn tail_key(user: &User) -> String {
    format!("chirp:{{{user}}}:posts")
}

/// The key of a chunk of a user's posts.
pub(crate) fn posts_key(user: &User, chunk: u64) -> String {
    format!("chirp:{{{user}}}:posts:{chunk}")
}

/// The keys of the chunks with the names that a user follows.
pub(crate) fn follows_keys(user: &User) -> Vec<String> {
    (0..FOLLOW_CHUNKS).map(|chunk| format!("chirp:{{{user}}}:follows:{chunk}")).collect()
}

/// The number of the tail, as it is stored under `key`.
pub(crate) fn read_tail(key: &str, value: Option<&Bytes>) -> Result<Option<u64>, Damaged> {
    let Some(value) = value else { return Ok(None) };
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Damaged(key.to_owned()))
}

/// The lines of a chunk that is stored under `key`.
pub(crate) fn lines<'a>(key: &str, chunk: &'a Bytes) -> Result<std::str::Lines<'a>, Damaged> {
    let text = std::str::from_utf8(chunk).ok().filter(|text| text.is_empty() || text.ends_with('\n'));
    text.map(str::lines).ok_or_else(|| Damaged(key.to_owned()))
}

/// The chunk with a line more; `None` if it has no room.
pub(crate) fn with_line(chunk: Option<&Bytes>, line: &str) -> Option<Vec<u8>> {
    let before = chunk.map(|bytes| &bytes[..]).unwrap_or_default();
    let whole = [before, line.as_bytes(), b"\n"].concat();
    (whole.len() <= CHUNK_BYTES_MAX).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_grows_to_its_limit_and_not_beyond() {
        let half = "x".repeat(CHUNK_BYTES_MAX / 2 - 1);
        let one = Bytes::from(with_line(None, &half).unwrap());
        let two = Bytes::from(with_line(Some(&one), &half).unwrap());
        assert_eq!(two.len(), CHUNK_BYTES_MAX);
        assert_eq!(with_line(Some(&two), ""), None);
        assert_eq!(lines("key", &two).unwrap().collect::<Vec<_>>(), [&half, &half]);
        assert_eq!(lines("key", &Bytes::new()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_not_written_here_is_told_by_its_key() {
        let damaged = Damaged("key".to_owned());
        for value in ["", "x", "-1", "1 "] {
            assert_eq!(read_tail("key", Some(&Bytes::from(value))), Err(damaged.clone()), "{value}");
        }
        assert_eq!(read_tail("key", Some(&Bytes::from("7"))), Ok(Some(7)));
        assert_eq!(read_tail("key", None), Ok(None));
        assert_eq!(lines("key", &Bytes::from("cut")).err(), Some(damaged.clone()));
        assert_eq!(lines("key", &Bytes::from_static(b"\xff\n")).err(), Some(damaged));
    }

    #[test]
    fn all_keys_of_a_user_share_a_slot() {
        let user: User = "alice".parse().unwrap();
        assert_eq!(tail_key(&user), "chirp:{alice}:posts");
        assert_eq!(posts_key(&user, 2), "chirp:{alice}:posts:2");
        assert_eq!(follows_keys(&user)[0], "chirp:{alice}:follows:0");
    }
}
