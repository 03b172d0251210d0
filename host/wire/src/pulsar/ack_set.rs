//! Which messages of a batch are still to be acknowledged, as Pulsar writes it down.
//!
//! A bit set in words of 64 bits, lowest first. **A set bit is a message that is not acknowledged**; words
//! of zero at the end may be left out, so that no word at all means: all of it is.

/// The indexes that are still to be acknowledged, of a batch of `len` messages. Bits beyond it say nothing.
pub fn unacked(words: &[i64], len: u32) -> Vec<u32> {
    (0..len).filter(|index| is_unacked(words, *index)).collect()
}

/// Whether the message at `index` is still to be acknowledged.
pub fn is_unacked(words: &[i64], index: u32) -> bool {
    let word = usize::try_from(index / 64).ok().and_then(|word| words.get(word));
    word.is_some_and(|word| word >> (index % 64) & 1 == 1)
}

/// The words in which exactly these indexes are still to be acknowledged.
pub fn from_unacked(indexes: impl IntoIterator<Item = u32>) -> Vec<i64> {
    let mut words = Vec::new();
    for index in indexes {
        let word = index as usize / 64;
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= 1_i64 << (index % 64);
    }
    words
}

/// The words for a batch of `len` messages of which only the one at `index` is acknowledged: what a client
/// sends for one message of a batch.
pub fn all_but(index: u32, len: u32) -> Vec<i64> {
    from_unacked((0..len).filter(|other| *other != index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[i64], len: u32, indexes: &[u32]) {
        assert_eq!(unacked(words, len), indexes);
        assert_eq!(from_unacked(indexes.iter().copied()), words);
    }

    #[test]
    fn a_set_bit_is_a_message_to_come() {
        check(&[0b101], 3, &[0, 2]);
    }

    #[test]
    fn words_come_lowest_first() {
        check(&[i64::MIN, 1], 100, &[63, 64]);
        check(&[0, 0, 2], 200, &[129]);
    }

    #[test]
    fn nothing_left_is_no_word() {
        check(&[], 10, &[]);
    }

    #[test]
    fn words_left_out_are_zero() {
        assert_eq!(unacked(&[1], 200), [0]);
    }

    #[test]
    fn bits_beyond_the_batch_say_nothing() {
        assert_eq!(unacked(&[-1], 3), [0, 1, 2]);
    }

    #[test]
    fn one_acknowledged() {
        assert_eq!(all_but(1, 3), [0b101]);
        assert_eq!(all_but(0, 1), [0_i64; 0]);
    }
}
