//! Bytes that are to arrive whole, or not at all: what children answer, and compiled code in files.
//!
//! A frame is [`MAGIC`], the content's length as u64, the SHA-256 of label and content, the content. So
//! neither a line printed by a library nor a torn file is taken for content, nor what was meant for
//! another place: the label is not in the frame, whoever reads it knows it.

use sha2::{Digest, Sha256};

/// What a frame begins with.
const MAGIC: &[u8; 12] = b"weir-frame1\n";

/// What a frame has before its content.
pub(crate) const HEADER: usize = MAGIC.len() + 8 + 32;

/// The header of a frame.
pub(crate) fn header(label: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&(content.len() as u64).to_le_bytes());
    header.extend_from_slice(&digest(label, content));
    header
}

/// The content of a frame, wherever the frame begins; `None` if there is none with this label or it is
/// damaged.
pub(crate) fn content<'a>(label: &str, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = bytes;
    loop {
        let start = rest.windows(MAGIC.len()).position(|window| window == MAGIC)?;
        rest = &rest[start + MAGIC.len()..];
        if let Some(content) = behind_magic(label, rest) {
            return Some(content);
        }
    }
}

fn behind_magic<'a>(label: &str, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (header, rest) = bytes.split_at_checked(HEADER - MAGIC.len())?;
    let length = u64::from_le_bytes(*header.first_chunk()?);
    let content = rest.get(..usize::try_from(length).ok()?)?;
    (digest(label, content)[..] == header[8..]).then_some(content)
}

fn digest(label: &str, content: &[u8]) -> [u8; 32] {
    // The label ends with what no label holds.
    Sha256::new().chain_update(label).chain_update([0]).chain_update(content).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_behind_noise_and_only_whole() {
        let framed = [header("a", b"code"), b"code".to_vec()].concat();
        assert_eq!(content("a", &framed), Some(&b"code"[..]));
        assert_eq!(content("b", &framed), None, "it was meant for another place");
        let noisy = [b"running 1 test\n", &MAGIC[..], &framed[..], b"ok\n"].concat();
        assert_eq!(content("a", &noisy), Some(&b"code"[..]));
        for end in 0..framed.len() {
            assert_eq!(content("a", &framed[..end]), None, "cut at {end}");
        }
        for at in 0..framed.len() {
            let mut damaged = framed.clone();
            damaged[at] ^= 1;
            assert_eq!(content("a", &damaged), None, "damaged at {at}");
        }
    }
}
