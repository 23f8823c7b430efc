"""The objectives of a cell, and the alerts about what breaks them. `generate` makes rules, tests and boards of them."""

# How much of a month's error budget burns in which time, as in the SRE workbook: long window, short window, factor, how
# long it must hold, and how loud the alert is.
WINDOWS = [
    ("1h", "5m", 14.4, "2m", "page"),
    ("6h", "30m", 6, "15m", "page"),
    ("1d", "2h", 3, "1h", "ticket"),
    ("3d", "6h", 1, "3h", "ticket"),
]

COMMITS = 'name=~"jobs_submit|placement_commit|task_report|lease_renew"'

# Lists and streams take as long as they are large.
CALLS = 'class=~"operator|change|read"'
FAULTS = 'code=~"UNAVAILABLE|INTERNAL|UNKNOWN|DATA_LOSS|DEADLINE_EXCEEDED"'

# name: what counts as an error, as a share of 0 to 1 over WINDOW; the objective; and what it says.
OBJECTIVES = {
    "commits": {
        "alert": "BoroughCommitsSlow",
        "objective": 0.999,
        "error": f"1 - sum(rate(store_run_seconds_bucket{{{COMMITS},le=\"0.3\"}}[WINDOW]))"
                 f" / sum(rate(store_run_seconds_count{{{COMMITS}}}[WINDOW]))",
        "summary": "Submissions, placements, reports and leases take more than 300 ms in the store",
        "good": [('store_run_seconds_bucket{name="jobs_submit",result="ok",le="0.3"}', "0+100x500"),
                 ('store_run_seconds_count{name="jobs_submit",result="ok"}', "0+100x500")],
        "fast": [('store_run_seconds_bucket{name="jobs_submit",result="ok",le="0.3"}', "0+90x500"),
                 ('store_run_seconds_count{name="jobs_submit",result="ok"}', "0+100x500")],
        "slow": [('store_run_seconds_bucket{name="jobs_submit",result="error",le="0.3"}', "0+998x500"),
                 ('store_run_seconds_count{name="jobs_submit",result="error"}', "0+1000x500")],
    },
    "calls": {
        "alert": "BoroughCallsSlow",
        "objective": 0.999,
        "error": f"1 - sum(rate(borough_gateway_calls_seconds_bucket{{{CALLS},le=\"1.0\"}}[WINDOW]))"
                 f" / sum(rate(borough_gateway_calls_seconds_count{{{CALLS}}}[WINDOW]))",
        "summary": "Calls that read or change single objects take more than a second",
        "good": [('borough_gateway_calls_seconds_bucket{class="read",le="1.0"}', "0+100x500"),
                 ('borough_gateway_calls_seconds_count{class="read"}', "0+100x500")],
        "fast": [('borough_gateway_calls_seconds_bucket{class="change",le="1.0"}', "0+90x500"),
                 ('borough_gateway_calls_seconds_count{class="change"}', "0+100x500")],
        "slow": [('borough_gateway_calls_seconds_bucket{class="operator",le="1.0"}', "0+998x500"),
                 ('borough_gateway_calls_seconds_count{class="operator"}', "0+1000x500")],
    },
    "answers": {
        "alert": "BoroughCallsFail",
        "objective": 0.999,
        "error": f"(sum(rate(borough_gateway_calls_answers_total{{{FAULTS}}}[WINDOW])) or vector(0))"
                 " / sum(rate(borough_gateway_calls_answers_total[WINDOW]))",
        "summary": "Calls fail by a fault of gateways or of the store, and not of their callers",
        "good": [('borough_gateway_calls_answers_total{method="JobService/GetJob",code="NOT_FOUND"}', "0+100x500"),
                 ('borough_gateway_calls_answers_total{method="JobService/GetJob",code="OK"}', "0+100x500")],
        "fast": [('borough_gateway_calls_answers_total{method="JobService/StopJob",code="UNAVAILABLE"}', "0+10x500"),
                 ('borough_gateway_calls_answers_total{method="JobService/StopJob",code="OK"}', "0+90x500")],
        "slow": [('borough_gateway_calls_answers_total{method="JobService/StopJob",code="INTERNAL"}', "0+2x500"),
                 ('borough_gateway_calls_answers_total{method="JobService/StopJob",code="OK"}', "0+998x500")],
    },
    "plans": {
        "alert": "BoroughPlansSlow",
        "objective": 0.99,
        "error": '1 - sum(rate(borough_scheduler_plan_seconds_bucket{le="0.4096"}[WINDOW]))'
                 " / sum(rate(borough_scheduler_plan_seconds_count[WINDOW]))",
        "summary": "Scheduler workers take more than 410 ms to plan a batch",
        "good": [('borough_scheduler_plan_seconds_bucket{le="0.4096"}', "0+100x500"),
                 ("borough_scheduler_plan_seconds_count", "0+100x500")],
        "fast": [('borough_scheduler_plan_seconds_bucket{le="0.4096"}', "0+70x500"),
                 ("borough_scheduler_plan_seconds_count", "0+100x500")],
        "slow": [('borough_scheduler_plan_seconds_bucket{le="0.4096"}', "0+98x500"),
                 ("borough_scheduler_plan_seconds_count", "0+100x500")],
    },
    "gateways": {
        "alert": "BoroughNoGateway",
        "objective": 0.999,
        "error": "1 - avg_over_time(borough:gateway_up[WINDOW])",
        "summary": "No gateway answers",
        "good": [('up{job="borough-gateway",instance="a"}', "1x500"), ('up{job="borough-gateway",instance="b"}', "0x500")],
        "fast": [('up{job="borough-gateway",instance="a"}', "0x500"), ('up{job="borough-gateway",instance="b"}', "0x500")],
        "slow": [('up{job="borough-gateway",instance="a"}', "1x425 0 1x28")],
    },
    "names": {
        "alert": "BoroughNamesStale",
        "objective": 0.999,
        "error": "1 - avg by (cell) (avg_over_time(borough:names_fresh[WINDOW]))",
        "summary": "Name services show endpoints of a cell that are more than 5 s old",
        "good": [('borough_names_age_milliseconds{cell="alpha"}', "300x500")],
        "fast": [('borough_names_age_milliseconds{cell="alpha"}', "60000x500")],
        "slow": [('borough_names_age_milliseconds{cell="alpha"}', "300x425 60000 300x28")],
    },
}

# What the windows of the last two objectives look at, a sample per evaluation.
HELPERS = {
    "borough:gateway_up": 'max(up{job="borough-gateway"})',
    "borough:names_fresh": "borough_names_age_milliseconds <= bool 5000",
}

# Alerts about causes. Each has series that make it fire, and like ones that do not.
ALERTS = [
    {"alert": "BoroughRoleDown", "expr": 'up{job=~"borough-.+"} == 0', "for": "5m", "severity": "ticket",
     "summary": "A process of {{ $labels.job }} does not answer at {{ $labels.instance }}",
     "fires": [('up{job="borough-scheduler",instance="a"}', "0x30")],
     "quiet": [('up{job="borough-scheduler",instance="a"}', "1x10 0x3 1x20"), ('up{job="node",instance="a"}', "0x30")]},
    {"alert": "BoroughJournalFull", "expr": "borough_journal_bytes / borough_journal_bytes_max > 0.9", "for": "5m",
     "severity": "page", "summary": "The journal of cell {{ $labels.cell }} is nearly full: new work will be refused",
     "fires": [('borough_journal_bytes{cell="alpha"}', "95x30"), ('borough_journal_bytes_max{cell="alpha"}', "100x30")],
     "quiet": [('borough_journal_bytes{cell="alpha"}', "75x30"), ('borough_journal_bytes_max{cell="alpha"}', "100x30")]},
    {"alert": "BoroughEndedJobsFull", "expr": "borough_ended_jobs_kept > 1.25 * borough_ended_jobs_kept_max", "for": "5m",
     "severity": "page", "summary": "Cell {{ $labels.cell }} has too many ended jobs: gateways delay submissions",
     "fires": [('borough_ended_jobs_kept{cell="alpha"}', "130x30"), ('borough_ended_jobs_kept_max{cell="alpha"}', "100x30")],
     "quiet": [('borough_ended_jobs_kept{cell="alpha"}', "120x30"), ('borough_ended_jobs_kept_max{cell="alpha"}', "100x30")]},
    {"alert": "BoroughGarbageLags", "expr": "max by (cell, kind) (borough_garbage_lag_milliseconds) > 60000", "for": "5m",
     "severity": "ticket", "summary": "No controller removes old {{ $labels.kind }} of cell {{ $labels.cell }}",
     "fires": [('borough_garbage_lag_milliseconds{cell="alpha",kind="jobs"}', "90000x30")],
     "quiet": [('borough_garbage_lag_milliseconds{cell="alpha",kind="jobs"}', "50000x30")]},
    {"alert": "BoroughStoreDiskFails", "expr": "increase(store_embedded_batch_failures_total[10m]) > 0", "for": "0m",
     "severity": "page", "summary": "The disk of the store refuses commits at {{ $labels.instance }}",
     "fires": [("store_embedded_batch_failures_total", "0x20 1x5")],
     "quiet": [("store_embedded_batch_failures_total", "3x30")]},
    {"alert": "BoroughStoreColdReads", "expr": "rate(store_embedded_cold_reads_total[5m]) > 2000", "for": "30m",
     "severity": "ticket", "summary": "The store at {{ $labels.instance }} reads thousands of rows a second from its disk",
     "fires": [("store_embedded_cold_reads_total", "0+180000x60")],
     "quiet": [("store_embedded_cold_reads_total", "0+60000x60")]},
    {"alert": "BoroughTasksWait",
     "expr": "sum by (cell) (borough_scheduler_worker_waiting) > 0"
             " and on () (sum(rate(borough_scheduler_placements_total[10m])) == 0)", "for": "10m", "severity": "page",
     "summary": "Tasks of cell {{ $labels.cell }} wait for their turn, and no worker places any",
     "fires": [('borough_scheduler_worker_waiting{cell="alpha"}', "5x60"), ("borough_scheduler_placements_total", "7x60")],
     "quiet": [('borough_scheduler_worker_waiting{cell="alpha"}', "5x60"), ("borough_scheduler_placements_total", "0+7x60")]},
    {"alert": "BoroughTasksUnschedulable", "expr": "sum by (cell) (borough_scheduler_worker_unschedulable) > 0", "for": "30m",
     "severity": "ticket", "summary": "Tasks of cell {{ $labels.cell }} fit on no node",
     "fires": [('borough_scheduler_worker_unschedulable{cell="alpha",worker="a"}', "2x60")],
     "quiet": [('borough_scheduler_worker_unschedulable{cell="alpha",worker="a"}', "2x20 0x40")]},
    {"alert": "BoroughSchedulerStale", "expr": "max by (cell) (borough_scheduler_worker_age_ms) > 15000", "for": "5m",
     "severity": "page", "summary": "Scheduler workers of cell {{ $labels.cell }} plan with an old state",
     "fires": [('borough_scheduler_worker_age_ms{cell="alpha"}', "20000x30")],
     "quiet": [('borough_scheduler_worker_age_ms{cell="alpha"}', "900x30")]},
    {"alert": "BoroughSchedulerConflicts",
     "expr": "sum(rate(borough_scheduler_conflicts_total[15m])) > 0.5 * sum(rate(borough_scheduler_commits_total[15m])) > 0",
     "for": "15m", "severity": "ticket", "summary": "More than a third of the batches of scheduler workers lose a conflict",
     "fires": [("borough_scheduler_conflicts_total", "0+60x90"), ("borough_scheduler_commits_total", "0+100x90")],
     "quiet": [("borough_scheduler_conflicts_total", "0+40x90"), ("borough_scheduler_commits_total", "0+100x90")]},
    {"alert": "BoroughAgentSessionsBreak",
     "expr": 'sum by (cell, kind) (increase(borough_agent_sessions_ended_total{kind=~"Protocol|Refused|Stalled"}[15m])) > 3',
     "for": "5m", "severity": "ticket",
     "summary": "Sessions of agents of cell {{ $labels.cell }} break again and again ({{ $labels.kind }})",
     "fires": [('borough_agent_sessions_ended_total{cell="alpha",kind="Stalled",lasting="false"}', "0+1x60")],
     "quiet": [('borough_agent_sessions_ended_total{cell="alpha",kind="Closed",lasting="true"}', "0+9x60")]},
    {"alert": "BoroughConnectionsRefused", "expr": "increase(borough_gateway_connections_refused_total[10m]) > 0", "for": "5m",
     "severity": "ticket", "summary": "The gateway at {{ $labels.instance }} has too many connections and refuses new ones",
     "fires": [("borough_gateway_connections_refused_total", "0+5x60")],
     "quiet": [("borough_gateway_connections_refused_total", "5x60")]},
    {"alert": "BoroughCallsWait", "expr": "min_over_time(borough_gateway_calls_waiting[5m]) > 0", "for": "5m",
     "severity": "ticket", "summary": "Calls of the class {{ $labels.class }} wait for room at {{ $labels.instance }}",
     "fires": [('borough_gateway_calls_waiting{class="list"}', "4x60")],
     "quiet": [('borough_gateway_calls_waiting{class="list"}', "0 4 0 4 0 4 0x50")]},
    {"alert": "BoroughLogLost", "expr": "increase(borough_log_lost_lines_total[10m]) > 0", "for": "0m", "severity": "ticket",
     "summary": "{{ $labels.instance }} cannot write its log and drops lines",
     "fires": [("borough_log_lost_lines_total", "0x20 9x9")],
     "quiet": [("borough_log_lost_lines_total", "9x60")]},
]

CELL = '{cell=~"$cell"}'


def rate(metric, labels=""):
    return f"rate({metric}{labels}[$__rate_interval])"


def quantile(share, metric, by=""):
    group = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({group}) (rate({metric}_bucket[$__rate_interval])))"


# Boards: title, and panels of a title, a unit, and expressions with the legend of each.
BOARDS = {
    "cell": ("Borough: cell", [
        ("Error budget burnt, by objective (1 uses it up in 30 days)", "none",
         [("borough:commits:error_1h / 0.001", "commits"), ("borough:calls:error_1h / 0.001", "calls"),
          ("borough:answers:error_1h / 0.001", "answers"), ("borough:plans:error_1h / 0.01", "plans"),
          ("borough:gateways:error_1h / 0.001", "gateways"), ("borough:names:error_1h / 0.001", "names {{cell}}")]),
        ("Processes that answer", "none", [('sum by (job) (up{job=~"borough-.+"})', "{{job}}")]),
        ("Tasks that wait for their turn, and that fit nowhere", "none",
         [(f"sum by (cell) (borough_scheduler_worker_waiting{CELL})", "wait {{cell}}"),
          (f"sum by (cell) (borough_scheduler_worker_unschedulable{CELL})", "fit nowhere {{cell}}")]),
        ("Tasks placed and evicted, per second", "ops",
         [(f"sum({rate('borough_scheduler_placements_total')})", "placed"),
          (f"sum({rate('borough_scheduler_evictions_total')})", "evicted")]),
        ("Journal, of its bound", "percentunit",
         [(f"max by (cell) (borough_journal_bytes{CELL} / borough_journal_bytes_max{CELL})", "{{cell}}")]),
        ("Endpoints", "none", [(f"max by (cell) (borough_names_endpoints{CELL})", "{{cell}}")]),
        ("Calls under way, by class", "none", [("sum by (class) (borough_gateway_calls_seats)", "{{class}}"),
                                               ("sum by (class) (borough_gateway_calls_waiting)", "wait {{class}}")]),
        ("Answers per second, by code", "ops", [(f"sum by (code) ({rate('borough_gateway_calls_answers_total')})", "{{code}}")]),
        ("Time of calls, 99 %, by class", "s",
         [("histogram_quantile(0.99, sum by (le, class) (rate(borough_gateway_calls_seconds_bucket[$__rate_interval])))",
           "{{class}}")]),
        ("Connections", "none", [("sum by (instance) (borough_gateway_connections_open)", "{{instance}}"),
                                 ("sum by (instance) (borough_gateway_connections_unauthenticated)", "no token {{instance}}")]),
    ]),
    "scheduler": ("Borough: scheduler", [
        ("Batches committed, and lost to a conflict, per second", "ops",
         [(f"sum by (instance) ({rate('borough_scheduler_commits_total')})", "committed {{instance}}"),
          (f"sum by (instance) ({rate('borough_scheduler_conflicts_total')})", "lost {{instance}}")]),
        ("Time to plan a batch", "s", [(quantile(0.5, "borough_scheduler_plan_seconds"), "median"),
                                       (quantile(0.99, "borough_scheduler_plan_seconds"), "99 %")]),
        ("Time to commit a batch", "s", [(quantile(0.5, "borough_scheduler_commit_seconds"), "median"),
                                         (quantile(0.99, "borough_scheduler_commit_seconds"), "99 %")]),
        ("Nodes scored per placed task", "none",
         [("sum(rate(borough_scheduler_nodes_scored_total[$__rate_interval]))"
           " / sum(rate(borough_scheduler_placements_total[$__rate_interval]))", "nodes")]),
        ("Pending tasks, by reason", "none", [(f"sum by (reason) (borough_scheduler_pending_tasks{CELL})", "{{reason}}")]),
        ("Age of what a worker knows", "ms", [(f"max by (worker) (borough_scheduler_worker_age_ms{CELL})", "{{worker}}")]),
        ("Shards, by worker", "none", [(f"max by (worker) (borough_scheduler_worker_shards{CELL})", "{{worker}}")]),
        ("Tasks in a batch at most", "none", [(f"max by (worker) (borough_scheduler_worker_batch_tasks{CELL})", "{{worker}}")]),
    ]),
    "store": ("Borough: store", [
        ("Transactions per second, by name", "ops", [("sum by (name) (rate(store_run_seconds_count[$__rate_interval]))", "{{name}}")]),
        ("99 % of the transactions, by name", "s", [(quantile(0.99, "store_run_seconds", "name"), "{{name}}")]),
        ("Attempts per transaction", "none",
         [("sum by (name) (rate(store_attempts_total[$__rate_interval]))"
           " / sum by (name) (rate(store_run_seconds_count[$__rate_interval]))", "{{name}}")]),
        ("Time to append and flush (embedded)", "s", [(quantile(0.5, "store_embedded_flush_seconds"), "median"),
                                                      (quantile(0.99, "store_embedded_flush_seconds"), "99 %")]),
        ("Commits per flush (embedded)", "none",
         [("sum(rate(store_embedded_transactions_total[$__rate_interval]))"
           " / sum(rate(store_embedded_batches_total[$__rate_interval]))", "transactions")]),
        ("Rows in memory, of what may be (embedded)", "percentunit",
         [("store_embedded_memory_bytes / store_embedded_memory_max_bytes", "{{instance}}")]),
        ("Rows read from the disk, per second (embedded)", "ops", [(rate("store_embedded_cold_reads_total"), "{{instance}}")]),
        ("Batches that the disk refused, per second (embedded)", "ops", [(rate("store_embedded_batch_failures_total"), "{{instance}}")]),
    ]),
    "agents": ("Borough: agents", [
        ("Sessions of agents that ended, per second, by kind", "ops",
         [(f"sum by (kind, lasting) ({rate('borough_agent_sessions_ended_total', CELL)})", "{{kind}} lasting {{lasting}}")]),
        ("Reports of agents written, per second", "ops", [('sum(rate(store_run_seconds_count{name="task_report"}[$__rate_interval]))', "reports")]),
        ("99 % of the reports", "s", [("histogram_quantile(0.99, sum by (le)"
                                       ' (rate(store_run_seconds_bucket{name="task_report"}[$__rate_interval])))', "99 %")]),
        ("Registrations of nodes, per second", "ops", [('sum(rate(store_run_seconds_count{name="node_register"}[$__rate_interval]))', "nodes")]),
        ("Tasks without a node because of nodes, by reason", "none",
         [('sum by (reason) (borough_scheduler_pending_tasks{cell=~"$cell",reason=~"lost|recovering|cordoned|draining|taint|no_nodes"})',
           "{{reason}}")]),
        ("Connections to gateways", "none", [("sum by (instance) (borough_gateway_connections_open)", "{{instance}}")]),
    ]),
    "job": ("Borough: jobs", [
        ("Jobs admitted, per second", "ops", [(f"sum by (cell) ({rate('borough_admission_jobs_total', CELL)})", "{{cell}}")]),
        ("Submissions refused, per second", "ops",
         [(f"sum by (cell) ({rate('borough_admission_refusals_total', CELL)})", "too many of a user {{cell}}"),
          (f"sum by (cell) ({rate('borough_journal_refusals_total', CELL)})", "journal full {{cell}}"),
          (f"sum by (cell) ({rate('borough_ended_jobs_refusals_total', CELL)})", "ended jobs {{cell}}")]),
        ("Pending tasks, by reason", "none", [(f"sum by (cell, reason) (borough_scheduler_pending_tasks{CELL})", "{{cell}} {{reason}}")]),
        ("Services, and their endpoints", "none", [(f"max by (cell) (borough_names_services{CELL})", "services {{cell}}"),
                                                   (f"max by (cell) (borough_names_endpoints{CELL})", "endpoints {{cell}}")]),
        ("Ended jobs, of what the cell keeps", "percentunit",
         [(f"max by (cell) (borough_ended_jobs_kept{CELL} / borough_ended_jobs_kept_max{CELL})", "{{cell}}")]),
        ("How long old jobs and answers wait for their removal", "ms",
         [(f"max by (cell, kind) (borough_garbage_lag_milliseconds{CELL})", "{{cell}} {{kind}}")]),
    ]),
}
