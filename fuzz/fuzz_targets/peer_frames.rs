//! Any bytes from a peer: nothing panics, nothing is allocated on the word of a length, and what is understood is
//! written back as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quorate_kernel::{frame, wire};
use quorate_replog::{Message, Record};

const VERSION_MAX: u16 = 3;
const BYTES_MAX: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some(cut)) = frame::cut(rest, VERSION_MAX, BYTES_MAX) {
        assert!(cut.version <= VERSION_MAX && cut.payload.len() <= BYTES_MAX);
        let mut again = Vec::new();
        frame::append(&mut again, cut.version, cut.kind, |mut buffer| {
            buffer.extend_from_slice(cut.payload);
            buffer
        });
        assert_eq!(again, rest[..cut.bytes], "a frame is written as it was read");
        rest = &rest[cut.bytes..];
    }
    // A fuzzer does not find checksums: the payload is tried as well.
    if let Ok(message) = wire::decode::<Message>(data) {
        let bytes = wire::encode(&message);
        assert_eq!(
            wire::decode::<Message>(&bytes).as_ref(),
            Ok(&message),
            "a message survives its own encoding"
        );
    }
    if let Ok(record) = wire::decode::<Record>(data) {
        let bytes = wire::encode(&record);
        assert_eq!(
            wire::decode::<Record>(&bytes).as_ref(),
            Ok(&record),
            "a record survives its own encoding"
        );
    }
});
