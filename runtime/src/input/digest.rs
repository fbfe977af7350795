//! A digest of bytes at their places in a file, which adds up over parts that are read in any order.

/// Digests bytes that begin at byte `at` of a file.
///
/// Each word of eight bytes is mixed with its place by a one-to-one map, and the results are added up modulo 2⁶⁴. So another
/// word always has another digest, and words that change places have one as well, but for a chance of 2⁻⁶⁴.
pub(super) fn digest_bytes(at: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let rest = (!words.remainder().is_empty()).then_some(last);
    let words = words.map(|word| word.try_into().unwrap_or_default());
    words
        .chain(rest)
        .zip((at..).step_by(8))
        .map(|(word, at)| mix_word(u64::from_le_bytes(word), at))
        .fold(0, u64::wrapping_add)
}

fn mix_word(word: u64, at: u64) -> u64 {
    let mixed = (word ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_every_change_shows() {
        let bytes: Vec<u8> = (0..1003u32).map(|n| (n * n / 7) as u8).collect();
        let whole = digest_bytes(40, &bytes);
        let (first, second) = bytes.split_at(512);
        let parts = digest_bytes(40, first).wrapping_add(digest_bytes(552, second));
        assert_eq!(parts, whole);
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert_ne!(digest_bytes(40, &other), whole, "{place}");
        }
        let mut swapped = bytes.clone();
        swapped.swap(8, 16);
        assert_ne!(digest_bytes(40, &swapped), whole);
        assert_ne!(digest_bytes(48, &bytes), whole);
    }
}
