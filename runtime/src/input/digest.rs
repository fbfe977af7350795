//! A digest of bytes at their places in a file, which adds up over parts that are read in any order.

/// Bytes that are digested together.
const BLOCK_BYTES: usize = 64;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Digests bytes that begin at byte `at` of a file.
///
/// Each block of bytes is digested with its place, and the results are added up modulo 2⁶⁴. Parts add up to the whole if each
/// but the last has whole blocks. Other bytes have another digest but for a chance of 2⁻⁶⁴. It is no protection against a
/// forger.
pub(super) fn digest_bytes(at: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let (mut at, mut sum) = (at, 0u64);
    for block in blocks {
        sum = sum.wrapping_add(digest_block(at, block));
        at += BLOCK_BYTES as u64;
    }
    if !rest.is_empty() {
        let mut last = [0; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        sum = sum.wrapping_add(digest_block(at, &last));
    }
    sum
}

/// Adds up products of pairs of words, with keys that follow from the place. The sum is mixed: equal changes of two blocks
/// would else cancel each other.
///
/// # References
/// Products of words and keys are the hash function NH of UMAC (Black et al., CRYPTO 1999).
fn digest_block(at: u64, block: &[u8; BLOCK_BYTES]) -> u64 {
    let mut key = mix(at);
    let mut sum = 0u128;
    for pair in block.as_chunks::<16>().0 {
        let [first, second] = [0, 8].map(|byte| {
            key = key.wrapping_add(GOLDEN);
            let word = std::array::from_fn(|n| pair[byte + n]);
            u64::from_le_bytes(word).wrapping_add(key)
        });
        sum = sum.wrapping_add(u128::from(first) * u128::from(second));
    }
    mix(sum as u64 ^ (sum >> 64) as u64)
}

/// Mixes bits so that each changes about half of all (SplitMix64).
fn mix(value: u64) -> u64 {
    let mixed = value.wrapping_add(GOLDEN);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
