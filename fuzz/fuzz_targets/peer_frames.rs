//! Any bytes from a peer: nothing panics, nothing is allocated on the word of a length, and what is understood is
//! written back as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quorate_kernel::{frame, wire};
use quorate_node as node;
use quorate_replog as replog;
use serde::{Serialize, de::DeserializeOwned};

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
    survives_its_own_encoding::<replog::Message>(data);
    survives_its_own_encoding::<replog::Record>(data);
    survives_its_own_encoding::<node::Message>(data);
    survives_its_own_encoding::<node::Record>(data);
});

/// Whatever decodes is the same when it was written and read again. Bytes are compared: a reply may hold a number that equals nothing.
fn survives_its_own_encoding<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let Ok(value) = wire::decode::<T>(data) else { return };
    let bytes = wire::encode(&value);
    let again = wire::decode::<T>(&bytes).expect("what we write decodes");
    assert_eq!(wire::encode(&again), bytes, "a message or record survives its own encoding");
}
