use super::*;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use proptest::prelude::*;
use quorate_api::Reply;

/// Everything a parser makes of these bytes, fed in pieces of these lengths (the last as often as needed).
fn parse(limits: &Limits, bytes: &[u8], pieces: &[usize]) -> (Vec<Vec<Bytes>>, Option<ProtocolError>) {
    let mut parser = Parser::new(limits.clone());
    let mut buffer = BytesMut::new();
    let mut commands = Vec::new();
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied();
    let mut piece = 1;
    loop {
        match parser.next(&mut buffer) {
            Ok(Some(words)) => {
                assert!(!words.is_empty(), "a command has a name");
                commands.push(words);
            }
            Ok(None) if rest.is_empty() => return (commands, None),
            Ok(None) => {
                piece = pieces.next().unwrap_or(piece).clamp(1, rest.len());
                buffer.extend_from_slice(&rest[..piece]);
                rest = &rest[piece..];
            }
            Err(error) => {
                assert_eq!(parser.next(&mut buffer), Err(error), "an error is final");
                return (commands, Some(error));
            }
        }
    }
}

fn whole(bytes: &[u8]) -> (Vec<Vec<Bytes>>, Option<ProtocolError>) {
    parse(&Limits::production(), bytes, &[bytes.len()])
}

fn frame(words: &[Bytes]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[test]
fn every_error_has_its_words() {
    let long = "1".repeat(70_000);
    let (long_count, long_length) = (format!("*{long}"), format!("*1\r\n${long}"));
    let cases: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (long_count.as_bytes(), "too big mbulk count string"),
        (b"*1\r\nx", "expected '$', got 'x'"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1 \r\n", "invalid bulk length"),
        (b"*1\r\n$16777217\r\n", "invalid bulk length, 16777217 bytes are more than the limit of 16777216"),
        (long_length.as_bytes(), "too big bulk count string"),
        (b"*1\r\n$1\r\nabc", "expected CR and LF after a bulk string, check its length"),
        (b"get \"a\n", "unbalanced quotes in request"),
        (long.as_bytes(), "too big inline request"),
    ];
    for (bytes, words) in cases {
        let error = whole(bytes).1.expect(words);
        assert_eq!(error.reply(), Reply::error(format!("ERR Protocol error: {words}")));
    }
}

#[test]
fn the_largest_that_is_allowed_passes() {
    let limits = Limits::tiny();
    let words = vec![Bytes::from_static(b"k"); limits.words_max];
    assert_eq!(parse(&limits, &frame(&words), &[1]), (vec![words], None));
    let words = vec![Bytes::from(vec![b'v'; limits.bulk_bytes_max])];
    assert_eq!(parse(&limits, &frame(&words), &[7]), (vec![words], None));
}

#[test]
fn a_command_is_bounded_as_a_whole() {
    let limits = Limits::tiny();
    let words = vec![Bytes::from(vec![b'v'; limits.bulk_bytes_max]); limits.words_max];
    let (commands, error) = parse(&limits, &frame(&words), &[1_000]);
    assert!(commands.is_empty());
    assert_eq!(error, Some(ProtocolError::CommandTooLong(limits.command_bytes_max as u64)));
}

#[test]
fn announcements_alone_take_no_room() {
    let mut parser = Parser::new(Limits::production());
    let mut buffer = BytesMut::from(&b"*1048576\r\n$16777216\r\nabc"[..]);
    assert_eq!(parser.next(&mut buffer), Ok(None));
    let partial = parser.partial.as_ref().expect("a command is under way");
    assert!(partial.words.capacity() <= WORDS_BELIEVED);
    assert!(buffer.capacity() < 1_000, "the parser does not reserve in the buffer");
    assert_eq!(parser.bytes_missing(&buffer), 16_777_216 + 2 - 3);
}

#[test]
fn nothing_is_searched_twice() {
    let mut parser = Parser::new(Limits::production());
    let mut buffer = BytesMut::new();
    for length in 1..1_000 {
        buffer.extend_from_slice(b"x");
        assert_eq!(parser.next(&mut buffer), Ok(None));
        assert_eq!(parser.scanned, length);
    }
}

#[test]
fn strangers_are_kept_short() {
    let restricted = |bytes: &[u8]| {
        let mut parser = Parser::new(Limits::production());
        parser.restrict(true);
        parser.next(&mut BytesMut::from(bytes))
    };
    assert_eq!(restricted(b"*10\r\n"), Ok(None));
    assert_eq!(restricted(b"*11\r\n"), Err(ProtocolError::UnauthenticatedMultibulkLength));
    assert_eq!(restricted(b"*1\r\n$16384\r\n"), Ok(None));
    assert_eq!(restricted(b"*1\r\n$16385\r\n"), Err(ProtocolError::UnauthenticatedBulkLength));
}

#[test]
fn a_conversation_is_the_same_however_it_is_cut() {
    let bytes = b"*0\r\nPING\r\n\r\n*2\r\n$3\r\nget\r\n$4\r\na\r\nb\r\nset k \"a\\r\\n b\"\n*-1\r\n*1\r\n$0\r\n\r\nx\n*1\r\nz";
    let expected = whole(bytes);
    assert_eq!(expected.0.len(), 5);
    assert_eq!(expected.1, Some(ProtocolError::ExpectedDollar(b'z')));
    for first in 1..bytes.len() {
        for second in [1, 3, bytes.len()] {
            assert_eq!(parse(&Limits::production(), bytes, &[first, second]), expected, "{first} {second}");
        }
    }
}

/// Bytes that are often nearly a frame.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        4 => (0_i32..12).prop_map(|count| format!("*{count}\r\n").into_bytes()),
        4 => proptest::collection::vec(any::<u8>(), 0..80)
            .prop_map(|word| [format!("${}\r\n", word.len()).into_bytes(), word, b"\r\n".to_vec()].concat()),
        2 => "[ -~]{0,70}\r?\n".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (any::<i64>(), proptest::sample::select(&b"*$"[..]))
            .prop_map(|(number, kind)| [&[kind][..], format!("{number}\r\n").as_bytes()].concat()),
    ];
    proptest::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn cuts_change_nothing(bytes in fragments(), pieces in proptest::collection::vec(1_usize..40, 1..20)) {
        for limits in [Limits::tiny(), Limits::production()] {
            prop_assert_eq!(parse(&limits, &bytes, &[bytes.len()]), parse(&limits, &bytes, &pieces));
        }
    }

    #[test]
    fn frames_come_back_as_their_words(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..8),
            0..6,
        ),
        piece in 1_usize..64,
    ) {
        let commands: Vec<Vec<Bytes>> =
            commands.into_iter().map(|words| words.into_iter().map(Bytes::from).collect()).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|words| frame(words)).collect();
        prop_assert_eq!(parse(&Limits::production(), &bytes, &[piece]), (commands, None));
    }

    #[test]
    fn limits_hold_for_any_bytes(bytes in fragments()) {
        let limits = Limits::tiny();
        let (commands, _) = parse(&limits, &bytes, &[17]);
        for words in commands {
            // An inline command has no more words than its line has bytes.
            prop_assert!(words.len() <= limits.words_max.max(limits.inline_bytes_max));
            let total: usize = words.iter().map(|word| word.len()).sum();
            prop_assert!(total <= limits.command_bytes_max);
            prop_assert!(words.iter().all(|word| word.len() <= limits.bulk_bytes_max));
        }
    }
}
