//! Which GPU each device of a platform file gets, over all ranks of a host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A device of a platform file that is a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GpuWish {
    /// Index of the device in its node.
    pub device: usize,
    /// The GPU's number in the process; without one the next that is free.
    pub number: Option<usize>,
    /// Whether other devices that want it too may have the same GPU.
    pub share: bool,
}

/// A rank of the host that wishes for GPUs.
#[derive(Debug)]
pub(super) struct GpuSeeker<'a> {
    /// Its rank in the job.
    pub rank: usize,
    /// The UUIDs of the GPUs that it sees, in the order of their numbers.
    pub gpus: Vec<&'a str>,
    /// What it wishes for.
    pub wishes: &'a [GpuWish],
}

/// A wish that cannot be granted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GpuRefusal {
    /// The rank whose wish it is.
    pub rank: usize,
    /// The number that it names, or that it wants the next one.
    pub value: String,
    /// Why not, and what to do.
    pub reason: String,
}

/// A device that has a GPU.
#[derive(Debug, Clone, Copy)]
struct GpuHolder {
    rank: usize,
    device: usize,
    share: bool,
}

impl std::fmt::Display for GpuHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}, device {}", self.rank, self.device)
    }
}

/// The devices of a host's platform nodes that have GPUs, by UUID.
#[derive(Debug, Default)]
pub(super) struct GpuClaims<'a> {
    holders: BTreeMap<&'a str, Vec<GpuHolder>>,
}

impl<'a> GpuClaims<'a> {
    /// Grants the wishes of all ranks of a host: the UUIDs of each rank's GPUs, in the order of its wishes.
    ///
    /// GPUs that are named by number go first; then, in the order of ranks and devices, each other device gets the next
    /// one that nobody has. Only devices that all say so share a GPU: by the same number, or where none is free.
    pub fn grant(seekers: &[GpuSeeker<'a>]) -> Result<(Self, Vec<Vec<&'a str>>), GpuRefusal> {
        let mut claims = Self::default();
        let mut granted: Vec<Vec<&str>> =
            seekers.iter().map(|s| vec![""; s.wishes.len()]).collect();
        for by_number in [true, false] {
            for (seeker, granted) in seekers.iter().zip(&mut granted) {
                let wishes = seeker.wishes.iter().zip(granted);
                for (wish, gpu) in wishes.filter(|(w, _)| w.number.is_some() == by_number) {
                    *gpu = claims.take(seeker, wish)?;
                }
            }
        }
        Ok((claims, granted))
    }

    /// How many devices have this GPU.
    pub fn count(&self, uuid: &str) -> usize {
        self.holders.get(uuid).map_or(0, Vec::len)
    }

    fn take(&mut self, seeker: &GpuSeeker<'a>, wish: &GpuWish) -> Result<&'a str, GpuRefusal> {
        let holder = GpuHolder {
            rank: seeker.rank,
            device: wish.device,
            share: wish.share,
        };
        let found = match wish.number {
            Some(number) => self.numbered(seeker, number, holder),
            None => self.next(seeker, holder),
        };
        let uuid = found.map_err(|reason| GpuRefusal {
            rank: seeker.rank,
            value: wish
                .number
                .map_or("next free".to_owned(), |number| number.to_string()),
            reason,
        })?;
        self.holders.entry(uuid).or_default().push(holder);
        Ok(uuid)
    }

    fn numbered(
        &self,
        seeker: &GpuSeeker<'a>,
        number: usize,
        holder: GpuHolder,
    ) -> Result<&'a str, String> {
        let uuid = *seeker.gpus.get(number).ok_or_else(|| {
            let n = seeker.gpus.len();
            format!("{holder}: this process sees {n} GPUs, numbered from 0")
        })?;
        match self.hindrance(uuid, holder) {
            None => Ok(uuid),
            Some(other) => Err(format!(
                "{holder} names the GPU that {other} has: name another one, or set `share = true` for both"
            )),
        }
    }

    /// The free GPU with the lowest number; without one, where it may be shared, the one that the fewest have.
    fn next(&self, seeker: &GpuSeeker<'a>, holder: GpuHolder) -> Result<&'a str, String> {
        let able = seeker.gpus.iter().copied();
        let able = able.filter(|uuid| self.hindrance(uuid, holder).is_none());
        able.min_by_key(|uuid| self.count(uuid)).ok_or_else(|| {
            let taken = seeker.gpus.iter().enumerate().filter_map(|(number, uuid)| {
                let other = self.hindrance(uuid, holder)?;
                Some(format!("GPU {number} is that of {other}"))
            });
            let mut seen = vec![format!("this process sees {} GPUs", seeker.gpus.len())];
            seen.extend(taken);
            format!(
                "{holder} finds no free GPU: {}; devices share one where each has `share = true`",
                seen.join(", ")
            )
        })
    }

    /// A device that keeps this one from the GPU.
    fn hindrance(&self, uuid: &str, holder: GpuHolder) -> Option<GpuHolder> {
        let holders = self.holders.get(uuid)?;
        let hinders = |other: &&GpuHolder| !(holder.share && other.share);
        holders.iter().find(hinders).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(wishes: &[(Option<usize>, bool)]) -> Vec<GpuWish> {
        let wish = |(device, &(number, share)): (usize, &(Option<usize>, bool))| GpuWish {
            device,
            number,
            share,
        };
        wishes.iter().enumerate().map(wish).collect()
    }

    /// What the ranks of a host get, all of which see the same GPUs.
    fn granted<'a>(
        gpus: &[&'a str],
        ranks: &[&[(Option<usize>, bool)]],
    ) -> Result<Vec<Vec<&'a str>>, GpuRefusal> {
        let wishes: Vec<Vec<GpuWish>> = ranks.iter().map(|rank| wishes(rank)).collect();
        let seekers: Vec<GpuSeeker<'_>> = wishes
            .iter()
            .enumerate()
            .map(|(rank, wishes)| GpuSeeker {
                rank,
                gpus: gpus.to_vec(),
                wishes,
            })
            .collect();
        // The names outlive the wishes.
        let named = |uuid: &&str| *gpus.iter().find(|gpu| *gpu == uuid).unwrap();
        let granted = GpuClaims::grant(&seekers)?.1;
        Ok(granted
            .iter()
            .map(|rank| rank.iter().map(named).collect())
            .collect())
    }

    const NEXT: (Option<usize>, bool) = (None, false);
    const ANY: (Option<usize>, bool) = (None, true);

    #[test]
    fn devices_without_a_number_take_the_next_free_gpu() {
        let three = ["a", "b", "c"];
        assert_eq!(
            granted(&three, &[&[NEXT], &[NEXT], &[NEXT]]).unwrap(),
            [["a"], ["b"], ["c"]]
        );
        // A number is kept for the device that names it, whoever comes first.
        assert_eq!(
            granted(&three, &[&[NEXT, NEXT], &[(Some(0), false)]]).unwrap(),
            [vec!["b", "c"], vec!["a"]]
        );
        // A rank that needs none leaves them to the others.
        assert_eq!(
            granted(&three, &[&[], &[NEXT]]).unwrap(),
            [vec![], vec!["a"]]
        );
    }

    #[test]
    fn ranks_that_see_different_gpus_number_their_own() {
        let (wishes, number) = (wishes(&[NEXT]), wishes(&[(Some(0), false)]));
        let seekers = [
            GpuSeeker {
                rank: 4,
                gpus: vec!["a", "b"],
                wishes: &wishes,
            },
            GpuSeeker {
                rank: 5,
                gpus: vec!["b"],
                wishes: &wishes,
            },
            GpuSeeker {
                rank: 6,
                gpus: vec!["c"],
                wishes: &number,
            },
        ];
        let (claims, granted) = GpuClaims::grant(&seekers).unwrap();
        assert_eq!(granted, [["a"], ["b"], ["c"]]);
        assert_eq!((claims.count("b"), claims.count("d")), (1, 0));
    }

    #[test]
    fn a_gpu_is_shared_only_where_every_device_says_so() {
        let zero = |share| (Some(0), share);
        assert_eq!(
            granted(&["a"], &[&[zero(true)], &[zero(true)]]).unwrap(),
            [["a"], ["a"]]
        );
        for (first, second) in [(false, false), (true, false), (false, true)] {
            let refusal = granted(&["a", "b"], &[&[zero(first)], &[zero(second)]]).unwrap_err();
            assert_eq!((refusal.rank, refusal.value.as_str()), (1, "0"));
            let names = "node 1, device 0 names the GPU that node 0, device 0 has";
            assert!(refusal.reason.starts_with(names), "{refusal:?}");
            assert!(refusal.reason.contains("share = true"), "{refusal:?}");
        }
        let within = granted(&["a", "b"], &[&[zero(false), zero(false)]]).unwrap_err();
        assert!(within.reason.contains("node 0, device 1"), "{within:?}");
        // As many as there are get their own, the next one shares.
        assert_eq!(
            granted(&["a", "b"], &[&[ANY], &[ANY], &[ANY]]).unwrap(),
            [["a"], ["b"], ["a"]]
        );
        assert_eq!(
            granted(&["a", "b"], &[&[NEXT], &[ANY], &[ANY]]).unwrap(),
            [["a"], ["b"], ["b"]]
        );
    }

    #[test]
    fn who_finds_no_gpu_is_told_who_has_them() {
        let refusal = granted(&["a"], &[&[NEXT], &[NEXT]]).unwrap_err();
        assert_eq!((refusal.rank, refusal.value.as_str()), (1, "next free"));
        let said = "GPU 0 is that of node 0, device 0";
        assert!(refusal.reason.contains(said), "{refusal:?}");
        let refusal = granted(&["a"], &[&[(Some(1), false)]]).unwrap_err();
        assert!(refusal.reason.contains("sees 1 GPUs"), "{refusal:?}");
        assert!(granted(&[], &[&[ANY]]).is_err());
    }
}
