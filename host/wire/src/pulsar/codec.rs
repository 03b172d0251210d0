//! The compressions of payloads, with bounds on what a peer can make us unpack.
//!
//! Source of the formats: LZ4 and Snappy are bare blocks, without frames; ZLIB has its header; ZSTD is one
//! frame. Pulsar `org.apache.pulsar.common.compression`.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::command::CompressionType;

/// The most that a payload may have when it is unpacked, in bytes, unless the caller says otherwise.
/// A producer packs before its size is checked, so this is more than the largest message.
pub const MAX_UNCOMPRESSED_SIZE: usize = 64 * 1024 * 1024;

/// LZ4 and Snappy need room for all of the result at once. Neither can grow its input more than this
/// (a byte of LZ4 copies at most 255, three bytes of Snappy 64), so more is announced only by a liar.
const MAX_BLOCK_GROWTH: usize = 256;

/// ZSTD's level 3, the default of all clients.
const ZSTD_LEVEL: i32 = 3;

/// Why a payload cannot be packed or unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// It would be larger than is taken.
    #[error("the payload has {announced} bytes when unpacked; at most {limit} are taken")]
    TooLarge {
        /// What its metadata say.
        announced: usize,
        /// What the caller allows.
        limit: usize,
    },
    /// It has another size than its metadata say.
    #[error("the payload has {actual} bytes when unpacked, its metadata say {announced}")]
    Size {
        /// What its metadata say.
        announced: usize,
        /// What came out, or the least that would.
        actual: usize,
    },
    /// It is not what its metadata say.
    #[error("the payload is not {compression:?}")]
    Corrupt {
        /// What its metadata say.
        compression: CompressionType,
        /// What the codec found.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Unpacks a payload of which its metadata say that it has `size` bytes, at most `limit`. Without
/// compression it is given back as it is, and `size` is not looked at: not all clients set it.
///
/// # Errors
/// See [`CodecError`].
pub fn decompress(
    compression: CompressionType,
    packed: &Bytes,
    size: usize,
    limit: usize,
) -> Result<Bytes, CodecError> {
    if compression == CompressionType::None {
        return Ok(packed.clone());
    }
    if size > limit {
        return Err(CodecError::TooLarge { announced: size, limit });
    }
    let unpacked = match compression {
        CompressionType::None => unreachable!("returned above"),
        CompressionType::Lz4 => lz4(packed, size)?,
        CompressionType::Snappy => snappy(packed, size)?,
        CompressionType::Zlib => zlib(packed, size)?,
        CompressionType::Zstd => zstd::bulk::decompress(packed, size).map_err(corrupt(compression))?,
    };
    match unpacked.len() {
        actual if actual == size => Ok(unpacked.into()),
        actual => Err(CodecError::Size { announced: size, actual }),
    }
}

/// Packs a payload.
///
/// # Errors
/// When it is larger than the codec takes.
pub fn compress(compression: CompressionType, payload: &Bytes) -> Result<Bytes, CodecError> {
    Ok(match compression {
        CompressionType::None => payload.clone(),
        CompressionType::Lz4 => lz4_flex::block::compress(payload).into(),
        CompressionType::Snappy => {
            snap::raw::Encoder::new().compress_vec(payload).map_err(corrupt(compression))?.into()
        }
        CompressionType::Zlib => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(payload).and_then(|()| encoder.finish()).map_err(corrupt(compression))?.into()
        }
        CompressionType::Zstd => {
            zstd::bulk::compress(payload, ZSTD_LEVEL).map_err(corrupt(compression))?.into()
        }
    })
}

fn lz4(packed: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
    check_growth(packed, size)?;
    let mut unpacked = vec![0; size];
    let actual =
        lz4_flex::block::decompress_into(packed, &mut unpacked).map_err(corrupt(CompressionType::Lz4))?;
    unpacked.truncate(actual);
    Ok(unpacked)
}

fn snappy(packed: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
    check_growth(packed, size)?;
    // The block says its size itself, and the decoder makes room for that.
    let actual = snap::raw::decompress_len(packed).map_err(corrupt(CompressionType::Snappy))?;
    if actual != size {
        return Err(CodecError::Size { announced: size, actual });
    }
    snap::raw::Decoder::new().decompress_vec(packed).map_err(corrupt(CompressionType::Snappy))
}

fn zlib(packed: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
    let mut unpacked = Vec::new();
    // One byte more than announced shows that there is more.
    let end = size as u64 + 1;
    ZlibDecoder::new(packed).take(end).read_to_end(&mut unpacked).map_err(corrupt(CompressionType::Zlib))?;
    Ok(unpacked)
}

fn check_growth(packed: &[u8], size: usize) -> Result<(), CodecError> {
    let most = packed.len().saturating_mul(MAX_BLOCK_GROWTH);
    if size > most {
        return Err(CodecError::Size { announced: size, actual: most });
    }
    Ok(())
}

fn corrupt<E>(compression: CompressionType) -> impl FnOnce(E) -> CodecError
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| CodecError::Corrupt { compression, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: [CompressionType; 4] =
        [CompressionType::Lz4, CompressionType::Zlib, CompressionType::Zstd, CompressionType::Snappy];

    fn text() -> Bytes {
        "a weir lets the right water through; ".repeat(100).into()
    }

    #[test]
    fn what_was_packed_comes_back() {
        for compression in PACKED {
            for payload in [Bytes::new(), text()] {
                let packed = compress(compression, &payload).unwrap();
                let unpacked = decompress(compression, &packed, payload.len(), 1 << 20).unwrap();
                assert_eq!(unpacked, payload, "{compression:?}");
            }
        }
    }

    #[test]
    fn nothing_is_unpacked_beyond_the_limit() {
        for compression in PACKED {
            let packed = compress(compression, &text()).unwrap();
            let error = decompress(compression, &packed, text().len(), 100).unwrap_err();
            assert!(matches!(error, CodecError::TooLarge { announced: 3700, limit: 100 }), "{error:?}");
        }
    }

    #[test]
    fn another_size_than_announced_is_refused() {
        for compression in PACKED {
            let packed = compress(compression, &text()).unwrap();
            for announced in [0, 10, 3699, 3701] {
                assert!(decompress(compression, &packed, announced, 1 << 20).is_err(), "{compression:?}");
            }
        }
    }

    #[test]
    fn noise_is_refused() {
        let noise = Bytes::from_static(&[0xc3, 0x91, 0x17, 0xfe, 0x00, 0x42, 0x99]);
        for compression in PACKED {
            let error = decompress(compression, &noise, 1000, 1 << 20).unwrap_err();
            assert!(matches!(error, CodecError::Corrupt { .. } | CodecError::Size { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_small_block_makes_no_large_room() {
        let packed = Bytes::from_static(&[0x1f, 0x61]);
        for compression in [CompressionType::Lz4, CompressionType::Snappy] {
            let error = decompress(compression, &packed, 1 << 25, 1 << 26).unwrap_err();
            assert!(matches!(error, CodecError::Size { actual: 512, .. }), "{error:?}");
        }
    }

    #[test]
    fn without_compression_the_size_is_not_looked_at() {
        assert_eq!(decompress(CompressionType::None, &text(), 0, 1).unwrap(), text());
    }
}
