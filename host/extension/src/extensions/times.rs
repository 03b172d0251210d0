//! How long calls take: counted in buckets, so that a percentile can be estimated and many can be added up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds; what took longer than the last one is counted beyond. A
/// deadline is 50 ms by default, and a call's is 500 ms more at most.
const BOUNDS: [u64; 19] = [
    5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000,
];

/// A histogram that many add to: relaxed atomics, one of which is added to once a batch.
#[derive(Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

/// What a histogram held at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many took so long, by bucket and not added up.
    buckets: [u64; BOUNDS.len() + 1],
}

impl Histogram {
    pub(super) fn add(&self, time: Duration) {
        self.buckets[bucket(time)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Times {
        Times { buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)) }
    }
}

/// The first bucket whose bound is not exceeded.
fn bucket(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    BOUNDS.partition_point(|bound| bound * 1000 < nanos)
}

impl Times {
    /// How many times were taken.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Each bucket's upper bound in seconds, infinity last, and how many took no longer than that or the bound
    /// before.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS.iter().map(|micros| Duration::from_micros(*micros).as_secs_f64());
        bounds.chain([f64::INFINITY]).zip(self.buckets)
    }

    /// An estimate of the time, in microseconds, that this share of the calls did not exceed: as if those of a
    /// bucket were spread evenly over it. Zero if there were none; of those beyond the last bound, that bound.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count() * percent).div_ceil(100);
        let (mut below, mut from) = (0, 0);
        for (count, bound) in self.buckets.iter().zip(BOUNDS) {
            if rank > 0 && below + count >= rank {
                return from + (bound - from) * (rank - below) / count;
            }
            (below, from) = (below + count, bound);
        }
        if below < rank { from } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: impl IntoIterator<Item = u64>) -> Times {
        let histogram = Histogram::default();
        micros.into_iter().for_each(|micros| histogram.add(Duration::from_micros(micros)));
        histogram.read()
    }

    #[test]
    fn a_time_is_counted_under_the_first_bound_that_it_does_not_exceed() {
        let counted = |micros| times([micros]).buckets().find(|(_, n)| *n == 1).map(|(bound, _)| bound);
        assert_eq!(counted(0), Some(5e-6));
        assert_eq!(counted(5), Some(5e-6));
        assert_eq!(counted(6), Some(1e-5));
        assert_eq!(counted(5_000_000), Some(5.0));
        assert_eq!(counted(5_000_001), Some(f64::INFINITY));
        assert_eq!(bucket(Duration::MAX), BOUNDS.len());
        assert_eq!(bucket(Duration::from_nanos(5001)), 1);
    }

    #[track_caller]
    fn check(times: &Times, p50: u64, p99: u64) {
        assert_eq!((times.percentile(50), times.percentile(99)), (p50, p99));
    }

    #[test]
    fn percentiles_lie_in_their_bucket() {
        check(&Times::default(), 0, 0);
        check(&times([7]), 10, 10);
        check(&times(vec![15; 100]), 15, 19);
        // Evenly from 1 µs to 10 ms, they are what they are.
        check(&times(1..=10_000), 5000, 9900);
        check(&times([60_000_000]), 5_000_000, 5_000_000);
        check(&times([vec![3; 98], vec![150_000; 2]].concat()), 2, 150_000);
    }
}
