//! Redis's patterns: `*`, `?`, `[set]`, `[^set]`, `[a-z]` and `\` before a byte that stands for itself.

/// Whether `text` matches `pattern`, with all the habits of Redis: a set without its closing bracket ends with the
/// pattern, a range may be written backwards, a backslash at the end is itself, and an empty text matches only the
/// empty pattern.
///
/// When a byte does not fit, only the last `*` is tried longer: what an earlier one could still cover, the last one
/// covers as well. So the cost is at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, read));
            continue;
        }
        if let Some(next) = step(pattern, at, text[read]) {
            at = next;
            read += 1;
            continue;
        }
        let Some((after, tried)) = star else { return false };
        (at, read) = (after, tried + 1);
        star = Some((after, tried + 1));
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Where the pattern goes on after its element at `at`, if that is there and matches `byte`.
fn step(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => {
            let (found, next) = set(pattern, at + 1, byte);
            found.then_some(next)
        }
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (*literal == byte).then_some(at + 1),
    }
}

/// Whether `byte` is in the set whose inside starts at `at`, and where the pattern goes on.
fn set(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut found = false;
    let next = loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break pattern.len(),
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => break at + 1,
            [one, b'-', other, ..] => {
                found |= (*one.min(other)..=*one.max(other)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    };
    (found != negated, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
        for (pattern, text, expected) in [
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "hllo", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("a\\", "a\\", true),
            ("[abc", "b", true),
            ("[abc", "d", false),
            ("[", "a", false),
            ("[^", "a", true),
            ("[a-", "-", true),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("", "", true),
            ("*", "", false),
            ("", "a", false),
            ("**", "ab", true),
            ("a**", "a", true),
            ("*a*b", "xaxb", true),
            ("*a*b", "xaxbc", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product() {
        let pattern: Vec<u8> = b"a*".repeat(2_000).into_iter().chain(*b"b").collect();
        assert!(!matches(&pattern, &b"a".repeat(20_000)));
    }
}
