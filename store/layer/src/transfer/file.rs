//! The file of an export.
//!
//! ```text
//! "borough\x1a"  format: u32
//! block*         [kind: u8] [length of payload: u32] [payload] [crc32c of kind, number of the block, payload: u32]
//! ```
//!
//! Numbers are little-endian. The first block is the header. Blocks of rows follow in the order of keys. The last block
//! is the end: the number of rows and blocks, and the XXH3-128 of every byte before it. Payloads are CBOR. A row is its
//! key without the cell's prefix (so that a cell can be given another name) and its value as it is stored.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use minicbor::{Decode, Encode};
use xxhash_rust::xxh3::Xxh3;

use super::ExportFileError;
use crate::key_kind::KeyKind;
use crate::row::{CellState, Cursor};

const MAGIC: &[u8; 8] = b"borough\x1a";
/// The format this build writes.
const FORMAT: u32 = 1;
/// A block ends after so many bytes of rows: one transaction of the import.
const BLOCK_BYTES: usize = 256 << 10;
/// A block ends after so many rows.
const BLOCK_ROWS: usize = 2_000;
/// The largest payload: [`BLOCK_BYTES`], and one row as large as a store accepts.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const KIND_HEADER: u8 = 1;
const KIND_ROWS: u8 = 2;
const KIND_END: u8 = 3;

/// The first block of a file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ExportHeader {
    /// The id of this export: an import continues only with the same one.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub id: [u8; 16],
    /// The cell's name where it was exported.
    #[n(1)]
    pub cell: borough_model::Name,
    /// The position of all rows.
    #[n(2)]
    pub at: Cursor,
    /// The state of the cell then.
    #[n(3)]
    pub state: CellState,
    /// Wall time of the export, milliseconds since 1970.
    #[n(4)]
    pub exported_ms: i64,
    /// The version of the program that wrote it.
    #[n(5)]
    pub program: String,
}

/// The last block of a file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ExportEnd {
    #[n(0)]
    pub rows: u64,
    #[n(1)]
    pub blocks: u64,
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    digest: [u8; 16],
}

/// Writes a file, block by block.
pub struct ExportWriter<W> {
    out: W,
    digest: Xxh3,
    frames: u64,
    block_rows: usize,
    pending: Vec<FileRow>,
    pending_bytes: usize,
    rows: u64,
    blocks: u64,
}

fn checksum(kind: u8, number: u64, payload: &[u8]) -> u32 {
    // The number makes a block that is missing, doubled or moved fail at once.
    let begin = crc32c::crc32c_append(crc32c::crc32c(&[kind]), &number.to_le_bytes());
    crc32c::crc32c_append(begin, payload)
}

impl<W: Write> ExportWriter<W> {
    /// Begins a file.
    pub fn begin(out: W, header: &ExportHeader) -> io::Result<Self> {
        Self::begin_with(out, header, BLOCK_ROWS)
    }

    /// Begins a file whose blocks have at most `block_rows` rows.
    pub(super) fn begin_with(out: W, header: &ExportHeader, block_rows: usize) -> io::Result<Self> {
        let mut writer = Self {
            out,
            digest: Xxh3::new(),
            frames: 0,
            block_rows,
            pending: Vec::new(),
            pending_bytes: 0,
            rows: 0,
            blocks: 0,
        };
        writer.bytes(MAGIC)?;
        writer.bytes(&FORMAT.to_le_bytes())?;
        writer.frame(KIND_HEADER, &cbor(header)?)?;
        Ok(writer)
    }

    /// Adds a row. Rows must come in the order of keys.
    pub fn row(&mut self, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.pending_bytes = self.pending_bytes.saturating_add(key.len()).saturating_add(value.len());
        self.pending.push((key, value));
        if self.pending_bytes >= BLOCK_BYTES || self.pending.len() >= self.block_rows {
            self.block_end()?;
        }
        Ok(())
    }

    /// Ends the file and returns the writer, flushed but not synced.
    pub fn end(mut self) -> io::Result<(W, ExportEnd)> {
        self.block_end()?;
        let end =
            ExportEnd { rows: self.rows, blocks: self.blocks, digest: self.digest.digest128().to_le_bytes() };
        self.frame(KIND_END, &cbor(&end)?)?;
        self.out.flush()?;
        Ok((self.out, end))
    }

    fn block_end(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.rows = self.rows.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
        self.blocks = self.blocks.saturating_add(1);
        let payload = rows_encode(&rows)?;
        self.frame(KIND_ROWS, &payload)
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        self.bytes(&[kind])?;
        self.bytes(&length.to_le_bytes())?;
        self.bytes(payload)?;
        self.bytes(&checksum(kind, self.frames, payload).to_le_bytes())?;
        self.frames = self.frames.saturating_add(1);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.out.write_all(bytes)
    }
}

fn cbor<T: Encode<()>>(value: &T) -> io::Result<Vec<u8>> {
    minicbor::to_vec(value).map_err(io::Error::other)
}

fn rows_encode(rows: &[FileRow]) -> io::Result<Vec<u8>> {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    let encode = |encoder: &mut minicbor::Encoder<Vec<u8>>| {
        encoder.array(u64::try_from(rows.len()).unwrap_or(u64::MAX))?;
        rows.iter().try_for_each(|(key, value)| encoder.bytes(key)?.bytes(value).map(drop))
    };
    encode(&mut encoder).map_err(|error: minicbor::encode::Error<_>| io::Error::other(error.to_string()))?;
    Ok(encoder.into_writer())
}

/// A row: its key without the cell's prefix, and its value as it is stored.
pub type FileRow = (Vec<u8>, Vec<u8>);

fn rows_decode(payload: &[u8]) -> Result<Vec<FileRow>, minicbor::decode::Error> {
    let mut decoder = minicbor::Decoder::new(payload);
    let count = decoder.array()?.unwrap_or(0);
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push((decoder.bytes()?.to_vec(), decoder.bytes()?.to_vec()));
    }
    if decoder.position() != payload.len() {
        return Err(minicbor::decode::Error::message("more than its rows"));
    }
    Ok(rows)
}

/// The next part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileBlock {
    /// Keys without the cell's prefix, and values.
    Rows {
        /// Sorted by key.
        rows: Vec<FileRow>,
        /// The position of the block in the file.
        at: u64,
    },
    /// The end: everything before it is as it was written.
    End(ExportEnd),
}

/// Reads a file, block by block, and checks each one first.
pub struct ExportReader<R> {
    frames: Frames<R>,
    rows: u64,
    blocks: u64,
    header: ExportHeader,
}

impl<R: Read> ExportReader<R> {
    /// Reads the header.
    pub fn begin(input: R) -> Result<Self, ExportFileError> {
        let mut frames = Frames { input, digest: Xxh3::new(), at: 0, number: 0 };
        let mut magic = [0; 8];
        let length = frames.fill(&mut magic)?;
        if magic.get(..length) != MAGIC.get(..length) || length == 0 {
            return Err(ExportFileError::NotExport);
        }
        if length < magic.len() {
            return Err(frames.truncated());
        }
        let mut format = [0; 4];
        frames.exact(&mut format)?;
        match u32::from_le_bytes(format) {
            FORMAT => {}
            0 => return Err(altered(8, "there is no format 0")),
            found => return Err(ExportFileError::Newer { found, supported: FORMAT }),
        }
        let at = frames.at;
        let (kind, payload) = frames.next()?;
        if kind != KIND_HEADER {
            return Err(altered(at, "the first block is not the header"));
        }
        Ok(Self { frames, rows: 0, blocks: 0, header: decode(at, &payload)? })
    }

    /// The header of the file.
    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// The next block. Nothing may follow the end.
    pub fn block(&mut self) -> Result<FileBlock, ExportFileError> {
        let at = self.frames.at;
        let digest = self.frames.digest.digest128().to_le_bytes();
        let (kind, payload) = self.frames.next()?;
        match kind {
            KIND_ROWS => {
                let rows = rows_decode(&payload).map_err(|error| altered(at, &error.to_string()))?;
                self.blocks = self.blocks.saturating_add(1);
                self.rows = self.rows.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
                Ok(FileBlock::Rows { rows, at })
            }
            KIND_END => {
                let end: ExportEnd = decode(at, &payload)?;
                if end.digest != digest || (end.rows, end.blocks) != (self.rows, self.blocks) {
                    return Err(altered(at, "the whole does not have the digest it ends with"));
                }
                let end_at = self.frames.at;
                match self.frames.fill(&mut [0; 1])? {
                    0 => Ok(FileBlock::End(end)),
                    _ => Err(altered(end_at, "there is more after the end")),
                }
            }
            _ => Err(altered(at, "a block of no kind that is known")),
        }
    }
}

/// The bytes of a file as blocks, with the position and the digest of what was read.
struct Frames<R> {
    input: R,
    digest: Xxh3,
    at: u64,
    number: u64,
}

impl<R: Read> Frames<R> {
    /// The kind and payload of the next block.
    fn next(&mut self) -> Result<(u8, Vec<u8>), ExportFileError> {
        let at = self.at;
        let (mut kind, mut length, mut sum) = ([0; 1], [0; 4], [0; 4]);
        self.exact(&mut kind)?;
        self.exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > PAYLOAD_BYTES_MAX {
            return Err(altered(at, "a block larger than any"));
        }
        let mut payload = vec![0; length];
        self.exact(&mut payload)?;
        self.exact(&mut sum)?;
        let [kind] = kind;
        if u32::from_le_bytes(sum) != checksum(kind, self.number, &payload) {
            return Err(altered(at, "the block does not have its checksum"));
        }
        self.number = self.number.saturating_add(1);
        Ok((kind, payload))
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), ExportFileError> {
        let length = self.fill(bytes)?;
        if length < bytes.len() { Err(self.truncated()) } else { Ok(()) }
    }

    fn truncated(&self) -> ExportFileError {
        ExportFileError::Truncated { at: self.at }
    }

    /// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0_usize;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.digest.update(bytes.get(..filled).unwrap_or_default());
        self.at = self.at.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        Ok(filled)
    }
}

fn altered(at: u64, what: &str) -> ExportFileError {
    ExportFileError::Altered { at, what: what.to_owned() }
}

fn decode<T: for<'bytes> Decode<'bytes, ()>>(at: u64, payload: &[u8]) -> Result<T, ExportFileError> {
    minicbor::decode(payload).map_err(|error| altered(at, &error.to_string()))
}

/// The order of the rows so far, which shows that no row is there twice. Each kind is in one piece, by key. The kinds
/// may be in any order: an early version wrote the grants before the endpoints.
#[derive(Default)]
struct RowOrder {
    kinds: BTreeSet<KeyKind>,
    last: Option<(KeyKind, Vec<u8>)>,
}

impl RowOrder {
    /// Takes the next row. Returns true if it may follow those before.
    fn follows(&mut self, kind: KeyKind, key: Vec<u8>) -> bool {
        let fits = match &self.last {
            Some((last, before)) if *last == kind => *before < key,
            _ => self.kinds.insert(kind),
        };
        self.last = Some((kind, key));
        fits
    }
}

/// Reads a whole file and returns its header and its end. Every row must be one that an export contains.
pub fn file_verify(input: impl Read) -> Result<(ExportHeader, ExportEnd), ExportFileError> {
    let mut reader = ExportReader::begin(input)?;
    let space = crate::keys::CellSpace::new(reader.header.cell.clone());
    let mut order = RowOrder::default();
    loop {
        match reader.block()? {
            FileBlock::End(end) => return Ok((reader.header, end)),
            FileBlock::Rows { rows, at } => {
                for (key, value) in rows {
                    let kind = super::import::row_check(&space, &key, &value)
                        .map_err(|source| ExportFileError::Row { at, source: Box::new(source) })?;
                    if !order.follows(kind, key) {
                        return Err(altered(at, "rows that are not in order"));
                    }
                }
            }
        }
    }
}
