//! Answers about services as they were sent, until the service changes.
//!
//! A kept answer is the one that would be computed. A service with the same index shows the same. Nothing else of the
//! table is in such an answer but the times of the cell.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::wire::{DnsTransport, PacketAnswer, packet_answer, packet_answered};
use super::zone::DnsZone;
use crate::table::{AnswerTimes, NamesTable, ServiceKey, TableIndex};

/// The most bytes of all kept answers. With more, all of them go: what is asked for comes back with the next question.
const BYTES_MAX: usize = 16 << 20;
/// The most endpoints of a service whose answers are kept. Each of its endpoints comes first in one of them.
const ENDPOINTS_MAX: usize = 1_024;
/// Bytes that are counted for each question and for each answer, beside those of the packets.
const ENTRY_BYTES: usize = 256;
/// Bytes of the id of a packet, which is another one each time.
const ID_BYTES: usize = 2;

/// Answers over UDP, by their question.
pub(super) struct KeptAnswers {
    map: Mutex<KeptMap>,
    bytes_max: usize,
}

#[derive(Default)]
struct KeptMap {
    /// By the packet of the question without its id.
    questions: BTreeMap<Box<[u8]>, KeptQuestion>,
    bytes: usize,
}

/// What was answered about a service.
struct KeptQuestion {
    service: ServiceKey,
    index: TableIndex,
    times: AnswerTimes,
    /// By the place of the endpoint that comes first.
    answers: BTreeMap<u64, Box<[u8]>>,
}

impl Default for KeptAnswers {
    fn default() -> Self {
        Self::with_bytes(BYTES_MAX)
    }
}

impl KeptAnswers {
    fn with_bytes(bytes_max: usize) -> Self {
        Self { map: Mutex::default(), bytes_max }
    }

    /// As [`packet_answer`] over UDP.
    pub(super) fn answer(
        &self,
        table: Option<&NamesTable>,
        zone: &DnsZone,
        packet: &[u8],
        rotation: u64,
    ) -> Option<Vec<u8>> {
        let (Some(table), Some((id, question))) = (table, packet.split_at_checked(ID_BYTES)) else {
            return packet_answer(table, zone, packet, DnsTransport::Udp, rotation);
        };
        if let Some(mut answer) = self.find(table, zone, question, rotation) {
            answer.get_mut(..ID_BYTES)?.copy_from_slice(id);
            return Some(answer);
        }
        let PacketAnswer { bytes, about } =
            packet_answered(Some(table), zone, packet, DnsTransport::Udp, rotation)?;
        if let Some(service) = about {
            self.keep(table, zone, service, question, &bytes, rotation);
        }
        Some(bytes)
    }

    fn find(&self, table: &NamesTable, zone: &DnsZone, question: &[u8], rotation: u64) -> Option<Vec<u8>> {
        let map = self.map.lock();
        let known = map.questions.get(question)?;
        let seen = ServiceSeen::of(table, zone, &known.service)?;
        if !known.holds_for(&seen) {
            return None;
        }
        known.answers.get(&seen.place(rotation)).map(|answer| answer.to_vec())
    }

    fn keep(
        &self,
        table: &NamesTable,
        zone: &DnsZone,
        service: ServiceKey,
        question: &[u8],
        answer: &[u8],
        rotation: u64,
    ) {
        let Some(seen) =
            ServiceSeen::of(table, zone, &service).filter(|seen| seen.endpoints <= ENDPOINTS_MAX)
        else {
            return;
        };
        let mut map = self.map.lock();
        let KeptMap { questions, bytes } = &mut *map;
        if *bytes > self.bytes_max {
            (*questions, *bytes) = (BTreeMap::new(), 0);
        }
        if questions.get(question).is_none_or(|known| !known.holds_for(&seen)) {
            let (index, times) = (seen.index, seen.times);
            let next = KeptQuestion { service, index, times, answers: BTreeMap::new() };
            match questions.insert(question.into(), next) {
                None => *bytes += question.len() + ENTRY_BYTES,
                Some(before) => *bytes = bytes.saturating_sub(before.bytes()),
            }
        }
        let Some(known) = questions.get_mut(question) else { return };
        if known.answers.insert(seen.place(rotation), answer.into()).is_none() {
            *bytes += answer.len() + ENTRY_BYTES;
        }
    }
}

impl KeptQuestion {
    fn holds_for(&self, seen: &ServiceSeen) -> bool {
        (self.index, self.times) == (seen.index, seen.times)
    }

    /// The bytes of its answers.
    fn bytes(&self) -> usize {
        self.answers.values().map(|answer| answer.len() + ENTRY_BYTES).sum()
    }
}

/// What of a table an answer about a service depends on.
struct ServiceSeen {
    index: TableIndex,
    times: AnswerTimes,
    endpoints: usize,
}

impl ServiceSeen {
    fn of(table: &NamesTable, zone: &DnsZone, key: &ServiceKey) -> Option<Self> {
        let service = table.service(key)?;
        let times = zone.times(table, Some(&key.cell));
        Some(Self { index: service.index(), times, endpoints: service.endpoints().len() })
    }

    /// The place of the endpoint that comes first.
    fn place(&self, rotation: u64) -> u64 {
        rotation % u64::try_from(self.endpoints).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
    use hickory_proto::rr::{Name as DnsName, RecordType};
    use proptest::prelude::*;

    use super::super::ZoneTimes;
    use super::*;
    use crate::table::tests::{endpoint, facts, table_of, table_steps, web};

    fn zone() -> DnsZone {
        DnsZone::new("names.test", vec!["127.0.0.1".parse().unwrap()], ZoneTimes::default()).unwrap()
    }

    fn packet(id: u16, name: &str, kind: RecordType, edns: Option<u16>) -> Vec<u8> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(DnsName::from_ascii(name).unwrap(), kind));
        if let Some(payload) = edns {
            let mut options = Edns::new();
            options.set_max_payload(payload);
            message.set_edns(options);
        }
        message.to_vec().unwrap()
    }

    fn count(kept: &KeptAnswers) -> usize {
        kept.map.lock().questions.values().map(|known| known.answers.len()).sum()
    }

    fn some_question() -> impl Strategy<Value = Vec<u8>> {
        let name = prop::sample::select(vec![
            "web.ann.alpha.names.test.",
            "api.ann.alpha.names.test.",
            "_http._tcp.web.ann.alpha.names.test.",
            "_HTTP._tcp.web.ann.alpha.names.test.",
            "_http._tcp.api.ann.alpha.names.test.",
            "_0._tcp.api.ann.alpha.names.test.",
            "0.web.ann.alpha.names.test.",
            "no.ann.alpha.names.test.",
            "ann.alpha.names.test.",
            "names.test.",
            "1.0.0.10.in-addr.arpa.",
        ]);
        let kind =
            prop::sample::select(vec![RecordType::A, RecordType::SRV, RecordType::ANY, RecordType::SOA]);
        (any::<u16>(), name, kind, prop::option::of(prop::sample::select(vec![100, 600, 4_096])))
            .prop_map(|(id, name, kind, edns)| packet(id, name, kind, edns))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Whatever happens to the table between two questions.
        #[test]
        fn a_kept_answer_is_the_one_that_would_be_computed(
            steps in table_steps(),
            questions in prop::collection::vec((some_question(), 0..6_u64), 1..12),
        ) {
            let mut table = table_of(&[("web", facts(1, &["http"]))], Vec::new());
            let kept = KeptAnswers::default();
            for (version, one) in (2..).zip(&steps) {
                one.apply(&mut table, version);
                for (question, rotation) in questions.iter().chain(&questions) {
                    let computed = packet_answer(Some(&table), &zone(), question, DnsTransport::Udp, *rotation);
                    let answered = kept.answer(Some(&table), &zone(), question, *rotation);
                    prop_assert_eq!(answered, computed, "after {:?}", one);
                }
            }
        }
    }

    #[test]
    fn answers_about_services_are_kept_and_no_others() {
        let (table, kept) = (web(), KeptAnswers::default());
        let ask = |packet: &[u8], rotation| kept.answer(Some(&table), &zone(), packet, rotation).unwrap();
        let name = "_http._tcp.web.ann.alpha.names.test.";
        let first = ask(&packet(7, name, RecordType::SRV, Some(1_232)), 0);
        for (id, rotation) in [(8, 0), (9, 3), (10, 300)] {
            let again = ask(&packet(id, name, RecordType::SRV, Some(1_232)), rotation);
            assert_eq!((again[2..].to_vec(), &again[..2]), (first[2..].to_vec(), &id.to_be_bytes()[..]));
        }
        assert_eq!(count(&kept), 1);
        assert_ne!(
            ask(&packet(7, name, RecordType::SRV, Some(1_232)), 1),
            first,
            "another endpoint is first"
        );
        assert_eq!(count(&kept), 2);
        ask(&packet(7, name, RecordType::A, None), 0);
        ask(&packet(7, "no.ann.alpha.names.test.", RecordType::A, None), 0);
        ask(&packet(7, "names.test.", RecordType::SOA, None), 0);
        assert_eq!(count(&kept), 2, "what has no records of a service is computed");
        // A packet with something else in it, such as a cookie, is another one each time.
        let mut odd = packet(7, name, RecordType::SRV, Some(1_232));
        let length = odd.len();
        odd[length - 1] = 4;
        odd.extend([0, 10, 0, 0]);
        ask(&odd, 0);
        assert_eq!(count(&kept), 2);
    }

    #[test]
    fn answers_about_very_large_services_are_not_kept() {
        let large = u32::try_from(ENDPOINTS_MAX).unwrap();
        for (endpoints, is_kept) in [(large, true), (large + 1, false)] {
            let endpoints =
                (0..endpoints).map(|index| endpoint((1, "web"), index, "10.0.0.1", &[("http", 8_080)]));
            let table = table_of(&[("web", facts(1, &["http"]))], endpoints.collect());
            let kept = KeptAnswers::default();
            let question = packet(1, "_http._tcp.web.ann.alpha.names.test.", RecordType::SRV, None);
            kept.answer(Some(&table), &zone(), &question, 0).unwrap();
            assert_eq!(count(&kept), usize::from(is_kept));
        }
    }

    #[test]
    fn kept_answers_have_a_bound() {
        let endpoints = (0..1_000).map(|index| endpoint((1, "web"), index, "10.0.0.1", &[("http", 8_080)]));
        let table = table_of(&[("web", facts(1, &["http"]))], endpoints.collect());
        const MOST: usize = 200_000;
        let kept = KeptAnswers::with_bytes(MOST);
        let mut most = 0;
        for rotation in 0..1_024 {
            // Resolvers mix upper and lower case.
            let name: String = "_http._tcp.web.ann.alpha.names.test."
                .char_indices()
                .map(
                    |(at, letter)| {
                        if rotation >> (at % 10) & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    },
                )
                .collect();
            kept.answer(Some(&table), &zone(), &packet(1, &name, RecordType::SRV, None), rotation).unwrap();
            most = most.max(kept.map.lock().bytes);
        }
        assert!((MOST..MOST + 4_096).contains(&most), "{most}");
        let counted = |known: &KeptQuestion| known.bytes() + ENTRY_BYTES;
        let all = kept.map.lock();
        let counted: usize =
            all.questions.iter().map(|(question, known)| question.len() + counted(known)).sum();
        assert_eq!(all.bytes, counted);
    }
}
