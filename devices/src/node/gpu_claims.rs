//! The GPUs that the devices of platform files get, over all ranks of a host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A device of a platform file that is a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GpuWish {
    /// Index of the device in its node.
    pub device: usize,
    /// The GPU's number in the process; `None` for the next free one.
    pub number: Option<usize>,
    /// `true` if other devices with `true` may have the same GPU.
    pub share: bool,
}

/// A rank of the host that wishes for GPUs.
#[derive(Debug)]
pub(super) struct GpuSeeker<'a> {
    /// Its rank in the job.
    pub rank: usize,
    /// The UUIDs of the GPUs that it sees, in the order of their numbers.
    pub gpus: Vec<&'a str>,
    /// Its wishes.
    pub wishes: &'a [GpuWish],
}

/// A wish that cannot be granted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GpuRefusal {
    /// The rank with the wish.
    pub rank: usize,
    /// The GPU number in the wish, or a text for the next free one.
    pub value: String,
    /// The reason, with advice.
    pub reason: String,
}

/// A device that has a GPU.
#[derive(Debug, Clone, Copy)]
struct GpuHolder<'a> {
    rank: usize,
    wish: &'a GpuWish,
}

impl std::fmt::Display for GpuHolder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}, device {}", self.rank, self.wish.device)
    }
}

/// The devices of a host's platform nodes that have GPUs, by UUID.
#[derive(Debug, Default)]
pub(super) struct GpuClaims<'a> {
    holders: BTreeMap<&'a str, Vec<GpuHolder<'a>>>,
}

impl<'a> GpuClaims<'a> {
    /// Grants the wishes of all ranks of a host. Returns the UUIDs of each rank's GPUs, in the order of its wishes.
    ///
    /// GPUs that are named by number go first. Then, in the order of ranks and devices, each other device gets the next
    /// free one. Devices share a GPU only if each of them allows it, by the same number or if none is free.
    pub fn grant_wishes(
        seekers: &[GpuSeeker<'a>],
    ) -> Result<(Self, Vec<Vec<&'a str>>), GpuRefusal> {
        let mut claims = Self::default();
        let mut granted: Vec<Vec<&str>> =
            seekers.iter().map(|s| vec![""; s.wishes.len()]).collect();
        for by_number in [true, false] {
            for (seeker, granted) in seekers.iter().zip(&mut granted) {
                for (wish, gpu) in seeker
                    .wishes
                    .iter()
                    .zip(granted)
                    .filter(|(w, _)| w.number.is_some() == by_number)
                {
                    let rank = seeker.rank;
                    let holder = GpuHolder { rank, wish };
                    *gpu = claims.find_gpu(seeker, holder).map_err(|reason| {
                        let value = wish.number.map_or("next free".to_owned(), |n| n.to_string());
                        GpuRefusal { rank, value, reason }
                    })?;
                    claims.holders.entry(gpu).or_default().push(holder);
                }
            }
        }
        Ok((claims, granted))
    }

    /// Returns the number of devices that have this GPU.
    pub fn count_holders(&self, uuid: &str) -> usize {
        self.holders.get(uuid).map_or(0, Vec::len)
    }

    /// Finds the GPU that a device names, if it may have it.
    ///
    /// For a device that names none, it finds the free GPU with the lowest number. Without one, it finds the one with the
    /// fewest holders, if all allow sharing.
    fn find_gpu(&self, seeker: &GpuSeeker<'a>, holder: GpuHolder<'_>) -> Result<&'a str, String> {
        let n = seeker.gpus.len();
        if let Some(number) = holder.wish.number {
            let Some(&uuid) = seeker.gpus.get(number) else {
                return Err(format!("{holder}: this process sees {n} GPUs, numbered from 0"));
            };
            return match self.find_hindrance(uuid, holder) {
                None => Ok(uuid),
                Some(other) => Err(format!(
                    "{holder} names the GPU that {other} has: name another one, or set `share = true` for both"
                )),
            };
        }
        let mut seen = vec![format!("this process sees {n} GPUs")];
        let mut able = Vec::new();
        for (number, &uuid) in seeker.gpus.iter().enumerate() {
            match self.find_hindrance(uuid, holder) {
                None => able.push(uuid),
                Some(other) => seen.push(format!("GPU {number} is that of {other}")),
            }
        }
        able.into_iter().min_by_key(|uuid| self.count_holders(uuid)).ok_or_else(|| {
            format!(
                "{holder} finds no free GPU: {}; devices share one if each has `share = true`",
                seen.join(", ")
            )
        })
    }

    /// Returns a device that keeps this one from the GPU.
    fn find_hindrance(&self, uuid: &str, holder: GpuHolder<'_>) -> Option<GpuHolder<'a>> {
        let mut others = self.holders.get(uuid)?.iter();
        others.find(|other| !(holder.wish.share && other.wish.share)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(wishes: &[(Option<usize>, bool)]) -> Vec<GpuWish> {
        wishes
            .iter()
            .enumerate()
            .map(|(device, &(number, share))| GpuWish { device, number, share })
            .collect()
    }

    /// Grants the wishes of the ranks of a host, which all see the same GPUs.
    fn granted<'a>(
        gpus: &[&'a str],
        ranks: &[&[(Option<usize>, bool)]],
    ) -> Result<Vec<Vec<&'a str>>, GpuRefusal> {
        let wishes: Vec<Vec<GpuWish>> = ranks.iter().map(|rank| wishes(rank)).collect();
        let seekers: Vec<GpuSeeker<'_>> = wishes
            .iter()
            .enumerate()
            .map(|(rank, wishes)| GpuSeeker { rank, gpus: gpus.to_vec(), wishes })
            .collect();
        let mut granted = Vec::new();
        for uuids in GpuClaims::grant_wishes(&seekers)?.1 {
            // The names outlive the wishes.
            let named = gpus.iter().copied();
            let named = uuids.iter().map(|uuid| named.clone().find(|gpu| gpu == uuid));
            granted.push(named.map(Option::unwrap).collect());
        }
        Ok(granted)
    }

    const NEXT: (Option<usize>, bool) = (None, false);
    const ANY: (Option<usize>, bool) = (None, true);
    const ZERO: (Option<usize>, bool) = (Some(0), false);
    const ZERO_SHARED: (Option<usize>, bool) = (Some(0), true);

    #[test]
    fn devices_without_a_number_take_the_next_free_gpu() {
        let three = ["a", "b", "c"];
        assert_eq!(granted(&three, &[&[NEXT], &[NEXT], &[NEXT]]).unwrap(), [["a"], ["b"], ["c"]]);
        // A number is kept for the device that names it, whichever comes first.
        assert_eq!(
            granted(&three, &[&[NEXT, NEXT], &[(Some(0), false)]]).unwrap(),
            [vec!["b", "c"], vec!["a"]]
        );
        // A rank that needs none leaves them to the others.
        assert_eq!(granted(&three, &[&[], &[NEXT]]).unwrap(), [vec![], vec!["a"]]);
    }

    #[test]
    fn ranks_that_see_different_gpus_number_their_own() {
        let (wishes, number) = (wishes(&[NEXT]), wishes(&[(Some(0), false)]));
        let seekers = [
            GpuSeeker { rank: 4, gpus: vec!["a", "b"], wishes: &wishes },
            GpuSeeker { rank: 5, gpus: vec!["b"], wishes: &wishes },
            GpuSeeker { rank: 6, gpus: vec!["c"], wishes: &number },
        ];
        let (claims, granted) = GpuClaims::grant_wishes(&seekers).unwrap();
        assert_eq!(granted, [["a"], ["b"], ["c"]]);
        assert_eq!((claims.count_holders("b"), claims.count_holders("d")), (1, 0));
    }

    #[test]
    fn a_gpu_is_shared_only_where_every_device_says_so() {
        assert_eq!(granted(&["a"], &[&[ZERO_SHARED], &[ZERO_SHARED]]).unwrap(), [["a"], ["a"]]);
        for (first, second) in [(false, false), (true, false), (false, true)] {
            let ranks: [&[_]; 2] = [&[(Some(0), first)], &[(Some(0), second)]];
            let refusal = granted(&["a", "b"], &ranks).unwrap_err();
            assert_eq!((refusal.rank, refusal.value.as_str()), (1, "0"));
            let names = "node 1, device 0 names the GPU that node 0, device 0 has";
            assert!(refusal.reason.starts_with(names), "{refusal:?}");
            assert!(refusal.reason.contains("share = true"), "{refusal:?}");
        }
        let within = granted(&["a", "b"], &[&[ZERO, ZERO]]).unwrap_err();
        assert!(within.reason.contains("node 0, device 1"), "{within:?}");
        // Each of the first two gets its own GPU, and the third one shares.
        assert_eq!(granted(&["a", "b"], &[&[ANY], &[ANY], &[ANY]]).unwrap(), [["a"], ["b"], ["a"]]);
        assert_eq!(
            granted(&["a", "b"], &[&[NEXT], &[ANY], &[ANY]]).unwrap(),
            [["a"], ["b"], ["b"]]
        );
    }

    #[test]
    fn a_device_without_a_gpu_is_told_which_devices_have_them() {
        let refusal = granted(&["a"], &[&[NEXT], &[NEXT]]).unwrap_err();
        assert_eq!((refusal.rank, refusal.value.as_str()), (1, "next free"));
        let said = "GPU 0 is that of node 0, device 0";
        assert!(refusal.reason.contains(said), "{refusal:?}");
        let refusal = granted(&["a"], &[&[(Some(1), false)]]).unwrap_err();
        assert!(refusal.reason.contains("sees 1 GPUs"), "{refusal:?}");
        assert!(granted(&[], &[&[ANY]]).is_err());
    }
}
