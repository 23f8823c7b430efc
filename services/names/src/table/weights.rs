//! The weights of endpoints, counted, so that nobody visits each endpoint for their sum.

use borough_model::merged::WeightSum;
use borough_model::task::Health;

use super::ServiceEndpoint;

/// Endpoints of one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WeightCount {
    weight: u32,
    published: u64,
    healthy: u64,
}

/// How many endpoints have which weight. The endpoints of a job have one, except during a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EndpointWeights(Vec<WeightCount>);

impl EndpointWeights {
    pub(super) fn add(&mut self, endpoint: &ServiceEndpoint) {
        let (weight, healthy) = of(endpoint);
        match self.0.iter_mut().find(|count| count.weight == weight) {
            Some(count) => {
                count.published += 1;
                count.healthy += healthy;
            }
            None => self.0.push(WeightCount { weight, published: 1, healthy }),
        }
    }

    pub(super) fn remove(&mut self, endpoint: &ServiceEndpoint) {
        let (weight, healthy) = of(endpoint);
        if let Some(count) = self.0.iter_mut().find(|count| count.weight == weight) {
            count.published = count.published.saturating_sub(1);
            count.healthy = count.healthy.saturating_sub(healthy);
        }
        self.0.retain(|count| count.published > 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn healthy(&self) -> WeightSum {
        self.sum(|count| count.healthy)
    }

    pub(super) fn published(&self) -> WeightSum {
        self.sum(|count| count.published)
    }

    fn sum(&self, endpoints: impl Fn(&WeightCount) -> u64) -> WeightSum {
        let mut sum = WeightSum::default();
        self.0.iter().for_each(|count| sum.add(count.weight, endpoints(count)));
        sum
    }
}

fn of(endpoint: &ServiceEndpoint) -> (u32, u64) {
    (endpoint.weight_shown(), u64::from(endpoint.health == Health::Healthy))
}
