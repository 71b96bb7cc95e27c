//! Names of users.

use std::fmt;
use std::str::FromStr;

use crate::ChirpError;

/// A name has at most so many characters.
pub const NAME_LENGTH_MAX: usize = 32;

/// The name of a user: 1 to 32 ASCII letters, digits or `_`. There is no register: whoever posts or follows is a user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User(String);

impl User {
    /// The name as text.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl FromStr for User {
    type Err = ChirpError;

    fn from_str(name: &str) -> Result<User, ChirpError> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.bytes().all(is_fine) {
            return Ok(User(name.to_owned()));
        }
        // What is repeated to whoever asked is bounded.
        Err(ChirpError::Name(name.chars().take(2 * NAME_LENGTH_MAX).collect()))
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_mistaken_for_keys_or_markup_are_refused() {
        for name in ["a", "Alice_7", &"x".repeat(NAME_LENGTH_MAX)] {
            assert_eq!(name.parse::<User>().unwrap().name(), name);
        }
        for name in ["", "a b", "a}", "a:b", "<b>", "é", "a\n", &"x".repeat(NAME_LENGTH_MAX + 1)] {
            assert!(matches!(name.parse::<User>(), Err(ChirpError::Name(_))), "{name}");
        }
    }
}
