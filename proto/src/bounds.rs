//! The bound of every message: what a sender makes and a receiver accepts. Both sides of each call set their limits
//! from here; the comments of the `.proto` files state the same numbers.
//!
//! A session of an agent lasts as long as its node, so no message may grow with the number of tasks. Long content is
//! sent in chunks, within a credit that the receiver renews as it applies them.

/// Most bytes of any message of an agent's session, in both directions. The longest single items fit: a hello with
/// every card and processor (about 400,000 bytes), a spec ([`SPEC_BYTES_MAX`]).
pub const SESSION_MESSAGE_BYTES_MAX: usize = 512 * 1024;
/// Bytes at which a chunk of a report or of the desired state is full. One longer item makes a chunk of its own.
pub const CHUNK_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of one item of a chunk; the sender sets aside a longer one and reports it. The rest up to
/// [`SESSION_MESSAGE_BYTES_MAX`] is for the frame of the items.
pub const CHUNK_ITEM_BYTES_MAX: usize = SESSION_MESSAGE_BYTES_MAX - 64 * 1024;

/// Most items of one chunk of the desired state: assignments, stops, forgets, specs and dropped specs together.
pub const DESIRED_ITEMS_MAX: usize = 4_096;
/// Most bytes of chunks of the desired state that the agent has not acknowledged: four full chunks.
pub const DESIRED_WINDOW_BYTES: usize = 4 * CHUNK_BYTES_MAX;
/// Most bytes of a spec as a message: three times its bytes as stored, since the shortest entry of a map has 3 bytes
/// there and 7 here.
pub const SPEC_BYTES_MAX: usize = 3 * borough_model::job::SPEC_BYTES_MAX;
/// Most bytes of an assignment as it is sent: 128 cards, 65,536 processors, 32 ports.
pub const ASSIGNMENT_BYTES_MAX: usize = 320 * 1024;
/// Most refused items that one acknowledgement names, each in [`SESSION_ERROR_BYTES_MAX`].
pub const REFUSED_ITEMS_MAX: usize = 64;
/// Most bytes of an acknowledgement.
pub const DESIRED_APPLIED_BYTES_MAX: usize = 128 * 1024;

/// Most statuses of one report: as many rows as the gateway writes in one transaction.
pub const REPORT_TASKS_MAX: usize = 512;
/// Most attempts of one session, including those that are over and not forgotten. A gateway ends a session with more;
/// agents do not enforce it.
pub const SESSION_ATTEMPTS_MAX: usize = 65_536;
/// Most reports that wait for their `ReportApplied`.
pub const REPORTS_UNAPPLIED_MAX: usize = 4;
/// Most bytes of one status.
pub const STATUS_BYTES_MAX: usize = 16 * 1024;
/// Most cores that a status names.
pub const STATUS_CORES_MAX: usize = 1_024;
/// Most attempts of one request for identities.
pub const IDENTITY_ATTEMPTS_MAX: usize = 32;
/// Most bytes of a token: its audience and the URL of its issuer are bounded.
pub const IDENTITY_TOKEN_BYTES_MAX: usize = 2_560;
/// Most bytes of the answer: four tokens for each.
pub const IDENTITY_ANSWER_BYTES_MAX: usize = 384 * 1024;
/// Most bytes of an agent's text for people: why a task ended, why a command failed.
pub const TEXT_BYTES_MAX: usize = 4_096;
/// Most bytes of the reason why a session ended.
pub const SESSION_ERROR_BYTES_MAX: usize = 1_024;

/// Most bytes of data in one message of a stream: of a log, of the output or the input of a command.
pub const STREAM_DATA_BYTES_MAX: usize = 32 * 1024;
/// Most bytes of such a message.
pub const STREAM_MESSAGE_BYTES_MAX: usize = 40 * 1024;
/// Credit that a message of a stream costs besides its data, so that many short messages are bounded as well.
pub const STREAM_MESSAGE_COST: usize = 128;
/// What quotas of production may grant together, in percent of the capacity.
pub const OVERSELL_PRODUCTION: std::ops::RangeInclusive<u32> = 1..=100;
/// The same of batch; 0 is any amount.
pub const OVERSELL_BATCH: std::ops::RangeInclusive<u32> = 0..=10_000;
/// Credit of one stream in one direction: the gateway holds at most so many bytes for one slow reader.
pub const STREAM_WINDOW_BYTES: usize = 256 * 1024;
/// Least credit of one stream. A reader of the logs of many tasks asks for it, so that all of them hold little.
pub const STREAM_WINDOW_BYTES_MIN: usize = 16 * 1024;
/// Most times in a message of a log with so many bytes of data. A time has up to 18 bytes.
pub const fn log_times_max(bytes: usize) -> usize {
    8 + bytes / 256
}
/// Streams of full credit that one gateway serves at once: 256 MiB for slow readers at most.
pub const STREAMS_MAX: usize = 1_024;
/// Most arguments of a command in a task's environment.
pub const EXEC_ARGUMENTS_MAX: usize = 4_096;
/// Most bytes of its arguments together: the kernel accepts as many in one argument.
pub const EXEC_COMMAND_BYTES_MAX: usize = 128 * 1024;

/// Most bytes of the start of a command.
pub const EXEC_START_BYTES_MAX: usize = 160 * 1024;
/// Most bytes of short messages: requests, stops, a welcome, and messages of a few numbers.
pub const SHORT_MESSAGE_BYTES_MAX: usize = 256;

/// Most bytes of a request of any other call: a spec, its frame, and a reserve.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of an answer of any other call: an explanation or a plan of a job with 100,000 tasks.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of rows at which a page of a list is full; one longer row makes a page of its own.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The credit that a message with so many bytes of data costs.
pub fn stream_cost(data_bytes: usize) -> usize {
    data_bytes.saturating_add(STREAM_MESSAGE_COST)
}

/// Cuts a text at a character's end so that it has at most `most` bytes.
pub fn text_cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
    }
}

/// The shortest and the longest retention of jobs and of the journal, in milliseconds.
pub const RETENTION_MS: std::ops::RangeInclusive<u64> = 60_000..=365 * 86_400_000;
/// The same of the calls of the audit.
pub const AUDIT_RETENTION_MS: std::ops::RangeInclusive<u64> = 60_000..=3_650 * 86_400_000;
/// The smallest and the largest bound of the journal: a few of the largest entries, and what one machine can keep.
pub const JOURNAL_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=1 << 40;
/// The smallest and the largest number of ended jobs that a cell keeps.
pub const ENDED_JOBS: std::ops::RangeInclusive<u64> = 100..=10_000_000;
/// The longest time for which a started task is protected from eviction, in milliseconds.
pub const FRESH_START_MS_MAX: u64 = 86_400_000;
/// The longest time for which a resolver may keep an answer: a withdrawn endpoint is used for as long. In milliseconds.
pub const DNS_TTL_MS_MAX: u64 = 3_600_000;
/// The longest drain delay that a cell gives jobs without one, in milliseconds. It is well within the margin after
/// which a task that does not end counts as stuck.
pub const CELL_DRAIN_DELAY_MS_MAX: u64 = 10_000;

/// How the text of a join token begins, before a dash and 64 hexadecimal digits.
pub const JOIN_TOKEN_LABEL: &str = "borough-join";
/// How the text of a node's identity begins, as above.
pub const NODE_IDENTITY_LABEL: &str = "borough-node-identity";
/// For how long a join token may count, in milliseconds: 1 minute to 7 days.
pub const JOIN_TOKEN_MS: std::ops::RangeInclusive<u64> = 60_000..=7 * 86_400_000;
/// For how long the identity of a node may count after a renewal, in milliseconds: 10 seconds to 90 days.
pub const NODE_IDENTITY_MS: std::ops::RangeInclusive<u64> = 10_000..=90 * 86_400_000;
/// The same if nobody says otherwise: 7 days.
pub const NODE_IDENTITY_DEFAULT_MS: u64 = 7 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    const NAME: usize = borough_model::Name::LENGTH_MAX;
    /// Most bytes of a label's value, and of a key.
    const LINE: usize = 256;
    const KEY: usize = 128;

    fn text(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    fn attempt() -> Option<v1::TaskAttempt> {
        Some(v1::TaskAttempt { job_id: text(17), index: u32::MAX, incarnation: u64::MAX })
    }

    fn card() -> v1::Card {
        let (kind, id, model) = (text(KEY), text(LINE), text(LINE));
        v1::Card { kind, place: u32::MAX, id, model, memory_bytes: u64::MAX }
    }

    fn within(message: &impl prost::Message, most: usize) {
        let bytes = message.encoded_len();
        assert!(bytes <= most && bytes <= SESSION_MESSAGE_BYTES_MAX, "{bytes} bytes, at most {most}");
    }

    #[test]
    fn the_largest_hello_fits() {
        let attributes = (0..128).map(|number| (format!("{number:0>8}"), text(40_000 / 128 - 8)));
        let devices = (0..128).map(|number| (format!("{number:0>128}"), u64::MAX));
        let capacity = v1::Resources {
            cpu_millis: u64::MAX,
            memory_bytes: u64::MAX,
            disk_bytes: u64::MAX,
            disk_bytes_per_s: u64::MAX,
            network_bytes_per_s: u64::MAX,
            device_millis: devices.collect(),
        };
        let cpus = (0..1_024).map(|cpu| 1_000_000 + cpu).collect();
        let domain = v1::NumaDomain { place: u32::MAX, socket: u32::MAX, cpus, memory_bytes: u64::MAX };
        let hello = v1::Hello {
            cell: text(NAME),
            node: text(NAME),
            agent_version: text(LINE),
            boot_id: text(LINE),
            capacity: Some(capacity),
            port_first: 65_535,
            port_last: 65_535,
            attributes: attributes.collect(),
            host: text(LINE),
            cards: vec![card(); 128],
            domains: vec![domain; 64],
            sessions_failed: u32::MAX,
            session_error: text(SESSION_ERROR_BYTES_MAX),
            ..v1::Hello::default()
        };
        within(&hello, SESSION_MESSAGE_BYTES_MAX - 64 * 1024);
    }

    #[test]
    fn the_largest_assignment_and_stop_fit() {
        // An order to resize has no devices.
        let amounts = v1::Resources {
            cpu_millis: u64::MAX,
            memory_bytes: u64::MAX,
            disk_bytes: u64::MAX,
            disk_bytes_per_s: u64::MAX,
            network_bytes_per_s: u64::MAX,
            ..v1::Resources::default()
        };
        let ports = vec![v1::Port { name: text(NAME), number: 65_535 }; 32];
        let alloc = v1::InAlloc { attempt: attempt(), set: text(NAME), ports: ports.clone() };
        within(&alloc, 4_096);
        let assignment = v1::Assignment {
            attempt: attempt(),
            cell: text(NAME),
            user: text(NAME),
            job: text(NAME),
            spec: None,
            spec_version: u32::MAX,
            ports,
            drain_delay_ms: u64::MAX,
            cards: vec![v1::AssignedCard { card: Some(card()), millis: u64::MAX }; 128],
            cpus: (0..65_536).collect(),
            memory_domains: (0..64).collect(),
            exclusive_cores: true,
            healthy_after_ms: u64::MAX,
            resize: Some(v1::ResizeOrder { order: u64::MAX, resources: Some(amounts), signal: i32::MAX }),
            alloc: Some(alloc),
            is_alloc: true,
        };
        within(&assignment, ASSIGNMENT_BYTES_MAX);
        const { assert!(ASSIGNMENT_BYTES_MAX <= CHUNK_ITEM_BYTES_MAX && SPEC_BYTES_MAX <= CHUNK_ITEM_BYTES_MAX) };
        let (drain_delay_ms, grace_ms) = (u64::MAX, u64::MAX);
        within(
            &v1::StopCommand { attempt: attempt(), reason: i32::MAX, drain_delay_ms, grace_ms },
            SHORT_MESSAGE_BYTES_MAX,
        );
    }

    #[test]
    fn the_largest_messages_of_streams_fit() {
        let data = || bytes::Bytes::from(vec![0; STREAM_DATA_BYTES_MAX]);
        let (id, error) = (u64::MAX, text(TEXT_BYTES_MAX));
        let chunk = v1::LogChunk {
            id,
            stream: i32::MAX,
            data: data(),
            end: true,
            error: error.clone(),
            next: Some(v1::LogPosition { file: u64::MAX, offset: u64::MAX }),
            gone_bytes: u64::MAX,
            times: vec![v1::LogTime { at: u32::MAX, ms: i64::MAX }; log_times_max(STREAM_DATA_BYTES_MAX)],
            refusal: i32::MAX,
        };
        within(&chunk, STREAM_MESSAGE_BYTES_MAX);
        let input = Some(v1::exec_input::Input::Stdin(data()));
        within(&v1::ExecInput { id, input }, STREAM_MESSAGE_BYTES_MAX);
        let output = Some(v1::exec_output::Output::Stdout(data()));
        within(&v1::ExecOutput { id, output }, STREAM_MESSAGE_BYTES_MAX);
        let output = Some(v1::exec_output::Output::Error(error.clone()));
        within(&v1::ExecOutput { id, output }, STREAM_MESSAGE_BYTES_MAX);
        within(&v1::CommandResult { id, error }, 8_192);
        let command = vec![text(EXEC_COMMAND_BYTES_MAX / EXEC_ARGUMENTS_MAX); EXEC_ARGUMENTS_MAX];
        let terminal = Some(v1::WindowSize { rows: u32::MAX, columns: u32::MAX });
        let start = v1::ExecStart { id, attempt: attempt(), command, terminal, window_bytes: u64::MAX };
        within(&start, EXEC_START_BYTES_MAX);
    }

    #[test]
    fn the_largest_short_messages_fit() {
        let (id, job_id) = (u64::MAX, text(17));
        let position = Some(v1::LogPosition { file: u64::MAX, offset: u64::MAX });
        let ask = v1::LogRequest {
            id,
            job_id: job_id.clone(),
            index: u32::MAX,
            incarnation: u64::MAX,
            stream: i32::MAX,
            tail_lines: Some(u32::MAX),
            follow: true,
            window_bytes: u64::MAX,
            stdout_from: position,
            stderr_from: position,
            times: true,
            since_ms: Some(u64::MAX),
            helper: text(63),
        };
        within(&ask, SHORT_MESSAGE_BYTES_MAX);
        within(
            &v1::SignalCommand { id, attempt: attempt(), signal: i32::MAX, request_id: text(32) },
            SHORT_MESSAGE_BYTES_MAX,
        );
        within(&v1::StreamCredit { id, bytes: u64::MAX }, 64);
        within(&v1::LogCancel { id }, 64);
        within(&v1::ReportApplied { revision: u64::MAX, report_interval_ms: u64::MAX }, 64);
        let welcome = v1::Welcome {
            node_id: job_id,
            session: u64::MAX,
            report_interval_ms: u64::MAX,
            store_epoch: u64::MAX,
            signs_identities: true,
            identity_renew_after_ms: u64::MAX,
        };
        within(&welcome, SHORT_MESSAGE_BYTES_MAX);
        let refused = vec![text(SESSION_ERROR_BYTES_MAX); REFUSED_ITEMS_MAX];
        within(&v1::DesiredApplied { sequence: u64::MAX, refused }, DESIRED_APPLIED_BYTES_MAX);
    }

    #[test]
    fn the_largest_answer_with_identities_fits() {
        let request = v1::IdentityRequest { attempts: vec![attempt().unwrap(); IDENTITY_ATTEMPTS_MAX] };
        within(&request, 4_096);
        let token = v1::IdentityToken { name: text(NAME), token: text(IDENTITY_TOKEN_BYTES_MAX) };
        let of = v1::AttemptIdentities {
            attempt: attempt(),
            tokens: vec![token; borough_model::job::IDENTITIES_MAX],
            renew_after_ms: u64::MAX,
            error: String::new(),
        };
        let answer = v1::IdentityAnswer { attempts: vec![of; IDENTITY_ATTEMPTS_MAX] };
        within(&answer, IDENTITY_ANSWER_BYTES_MAX);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut cut = "aäöü".to_owned();
        text_cut(&mut cut, 4);
        assert_eq!(cut, "aä");
    }
}
