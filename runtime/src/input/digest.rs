//! A digest of bytes at their places in a file, which adds up over parts that are read in any order.

/// Digests bytes that begin at byte `at` of a file.
///
/// Each word of eight bytes is mixed with its place by a one-to-one map, and the results are added up modulo 2⁶⁴. So another
/// word always has another digest, and words that change places have one as well, but for a chance of 2⁻⁶⁴.
pub(super) fn digest_bytes(at: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut at, mut sum) = (at, 0u64);
    for word in words {
        sum = sum.wrapping_add(mix_word(u64::from_le_bytes(*word), at));
        at += 8;
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum = sum.wrapping_add(mix_word(u64::from_le_bytes(last), at));
    }
    sum
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
