//! Decodes one direction of a connection: HTTP/2 frames and the gRPC messages in them. It skips header blocks, which
//! contain the real date.

use std::collections::BTreeMap;

/// The first bytes of a client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER: usize = 9;
const DATA: u8 = 0;
const MESSAGE_HEADER: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A frame without data: its type and stream.
    Frame(u8, u32),
    /// A whole gRPC message of a stream.
    Message(u32, Vec<u8>),
}

#[derive(Debug, Default)]
pub(crate) struct Reader {
    begun: bool,
    bytes: Vec<u8>,
    messages: BTreeMap<u32, Vec<u8>>,
}

impl Reader {
    /// Adds bytes and returns what is complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Decoded> {
        self.bytes.extend_from_slice(bytes);
        if !self.begun && self.bytes.len() >= FRAME_HEADER {
            if self.bytes.starts_with(&PREFACE[..FRAME_HEADER]) {
                if self.bytes.len() < PREFACE.len() {
                    return Vec::new();
                }
                self.bytes.drain(..PREFACE.len());
            }
            self.begun = true;
        }
        let mut decoded = Vec::new();
        let mut read = 0;
        while self.begun && self.bytes.len() - read >= FRAME_HEADER {
            let head = &self.bytes[read..read + FRAME_HEADER];
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            if self.bytes.len() - read < FRAME_HEADER + length {
                break;
            }
            let payload = &self.bytes[read + FRAME_HEADER..read + FRAME_HEADER + length];
            if kind == DATA {
                data(self.messages.entry(stream).or_default(), stream, payload, &mut decoded);
            } else {
                decoded.push(Decoded::Frame(kind, stream));
            }
            // RST_STREAM, or the end of the stream.
            if kind == 3 || (kind <= 1 && flags & 1 != 0) {
                self.messages.remove(&stream);
            }
            read += FRAME_HEADER + length;
        }
        self.bytes.drain(..read);
        decoded
    }
}

fn data(message: &mut Vec<u8>, stream: u32, payload: &[u8], decoded: &mut Vec<Decoded>) {
    message.extend_from_slice(payload);
    while message.len() >= MESSAGE_HEADER {
        let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]);
        let whole = MESSAGE_HEADER + usize::try_from(length).unwrap_or(usize::MAX);
        if message.len() < whole {
            return;
        }
        let rest = message.split_off(whole);
        decoded.push(Decoded::Message(stream, std::mem::replace(message, rest)));
    }
}
