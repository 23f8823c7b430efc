//! A limit of answers per network of clients, so that a forged sender cannot be flooded with answers.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

/// Buckets. Two networks may share one, so that memory does not grow with the number of clients.
const BUCKETS: usize = 4_096;
/// Of the answers above the limit, each second one says "ask again over TCP". A real client then does.
const SLIP: u64 = 2;

/// What to do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    Answer,
    /// Answer without records, so that the client asks over TCP.
    AnswerCut,
    Drop,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Millionths of an answer that are left.
    left: u64,
    at_us: u64,
    refused: u64,
}

/// Limits the answers per second and network: /24 of IPv4, /56 of IPv6. Loopback is not limited, because nobody can
/// forge it from elsewhere.
pub struct PrefixLimit {
    /// Answers per second, and at once; 0: no limit.
    rate: u32,
    hasher: RandomState,
    buckets: Mutex<Vec<Bucket>>,
}

impl PrefixLimit {
    /// A limit of `rate` answers per second; 0: none.
    pub fn new(rate: u32) -> Self {
        let full = Bucket { left: u64::from(rate) * 1_000_000, at_us: 0, refused: 0 };
        Self { rate, hasher: RandomState::new(), buckets: Mutex::new(vec![full; BUCKETS]) }
    }

    /// Counts a question of `client`.
    pub fn check(&self, client: IpAddr, now: Duration) -> RateVerdict {
        let client = client.to_canonical();
        if self.rate == 0 || client.is_loopback() {
            return RateVerdict::Answer;
        }
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let at = self.hasher.hash_one(prefix_of(client));
        let at = usize::try_from(at % u64::try_from(BUCKETS).unwrap_or(1)).unwrap_or_default();
        let mut buckets = self.buckets.lock();
        let Some(bucket) = buckets.get_mut(at) else { return RateVerdict::Answer };
        let passed = now_us.saturating_sub(bucket.at_us);
        bucket.at_us = now_us.max(bucket.at_us);
        let most = u64::from(self.rate) * 1_000_000;
        bucket.left = bucket.left.saturating_add(passed.saturating_mul(u64::from(self.rate))).min(most);
        if let Some(left) = bucket.left.checked_sub(1_000_000) {
            bucket.left = left;
            return RateVerdict::Answer;
        }
        bucket.refused = bucket.refused.wrapping_add(1);
        if bucket.refused.is_multiple_of(SLIP) { RateVerdict::AnswerCut } else { RateVerdict::Drop }
    }
}

fn prefix_of(client: IpAddr) -> (u8, u128) {
    match client {
        IpAddr::V4(address) => (4, u128::from(u32::from(address) >> 8)),
        IpAddr::V6(address) => (6, u128::from(address) >> 72),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gets_its_rate_and_others_theirs() {
        let limit = PrefixLimit::new(10);
        let now = Duration::from_secs(100);
        let (one, sibling): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.77".parse().unwrap());
        let verdicts: Vec<_> = (0..14).map(|_| limit.check(one, now)).collect();
        assert_eq!(verdicts[..10], [RateVerdict::Answer; 10]);
        use RateVerdict::{AnswerCut, Drop};
        assert_eq!(verdicts[10..], [Drop, AnswerCut, Drop, AnswerCut]);
        assert_ne!(limit.check(sibling, now), RateVerdict::Answer, "of the same network");
        let later = now + Duration::from_millis(100);
        assert_eq!(limit.check(one, later), RateVerdict::Answer, "a tenth of a second gives one answer");
        assert_ne!(limit.check(one, later), RateVerdict::Answer);
        for _ in 0..100 {
            assert_eq!(limit.check("127.0.0.1".parse().unwrap(), now), RateVerdict::Answer);
        }
        let none = PrefixLimit::new(0);
        assert!((0..1_000).all(|_| none.check(one, now) == RateVerdict::Answer));
    }
}
