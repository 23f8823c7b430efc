from borough.v1 import common_pb2 as _common_pb2
from borough.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_KIND_UNSPECIFIED: _ClassVar[JobKind]
    JOB_KIND_SERVICE: _ClassVar[JobKind]
    JOB_KIND_BATCH: _ClassVar[JobKind]
    JOB_KIND_DAEMON: _ClassVar[JobKind]
    JOB_KIND_ALLOC_SET: _ClassVar[JobKind]

class SecretForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SECRET_FORM_UNSPECIFIED: _ClassVar[SecretForm]
    SECRET_FORM_VARIABLE: _ClassVar[SecretForm]
    SECRET_FORM_FILE: _ClassVar[SecretForm]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_WAITING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_STOPPING: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_STOPPED: _ClassVar[JobState]
    JOB_STATE_DEPENDENCY_FAILED: _ClassVar[JobState]

class RolloutState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_STATE_UNSPECIFIED: _ClassVar[RolloutState]
    ROLLOUT_STATE_ROLLING: _ClassVar[RolloutState]
    ROLLOUT_STATE_PAUSED: _ClassVar[RolloutState]
    ROLLOUT_STATE_DONE: _ClassVar[RolloutState]
    ROLLOUT_STATE_FAILED: _ClassVar[RolloutState]

JOB_KIND_UNSPECIFIED: JobKind
JOB_KIND_SERVICE: JobKind
JOB_KIND_BATCH: JobKind
JOB_KIND_DAEMON: JobKind
JOB_KIND_ALLOC_SET: JobKind
SECRET_FORM_UNSPECIFIED: SecretForm
SECRET_FORM_VARIABLE: SecretForm
SECRET_FORM_FILE: SecretForm
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_WAITING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_STOPPING: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_STOPPED: JobState
JOB_STATE_DEPENDENCY_FAILED: JobState
ROLLOUT_STATE_UNSPECIFIED: RolloutState
ROLLOUT_STATE_ROLLING: RolloutState
ROLLOUT_STATE_PAUSED: RolloutState
ROLLOUT_STATE_DONE: RolloutState
ROLLOUT_STATE_FAILED: RolloutState

class JobSpec(_message.Message):
    __slots__ = (
        "user",
        "name",
        "kind",
        "priority",
        "count",
        "min_member",
        "after",
        "constraints",
        "spread",
        "task",
        "overrides",
        "restart",
        "drain_delay_ms",
        "lost_after_ms",
        "labels",
        "affinity",
        "tolerations",
        "scheduler",
        "profile",
        "queue",
        "gang_topology",
        "roles",
        "preemption",
        "description",
        "progress_deadline_ms",
        "update",
        "alloc_set",
    )
    class OverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TaskOverride
        def __init__(
            self, key: _Optional[int] = ..., value: _Optional[_Union[TaskOverride, _Mapping]] = ...
        ) -> None: ...

    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_MEMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    DRAIN_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GANG_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    ALLOC_SET_FIELD_NUMBER: _ClassVar[int]
    user: str
    name: str
    kind: JobKind
    priority: int
    count: int
    min_member: int
    after: _containers.RepeatedCompositeFieldContainer[After]
    constraints: _containers.RepeatedCompositeFieldContainer[Constraint]
    spread: _containers.RepeatedCompositeFieldContainer[Spread]
    task: TaskSpec
    overrides: _containers.MessageMap[int, TaskOverride]
    restart: RestartSpec
    drain_delay_ms: int
    lost_after_ms: int
    labels: _containers.ScalarMap[str, str]
    affinity: _containers.RepeatedCompositeFieldContainer[Affinity]
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    scheduler: str
    profile: str
    queue: str
    gang_topology: GangTopology
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    preemption: Preemption
    description: str
    progress_deadline_ms: int
    update: UpdateSpec
    alloc_set: str
    def __init__(
        self,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        kind: _Optional[_Union[JobKind, str]] = ...,
        priority: _Optional[int] = ...,
        count: _Optional[int] = ...,
        min_member: _Optional[int] = ...,
        after: _Optional[_Iterable[_Union[After, _Mapping]]] = ...,
        constraints: _Optional[_Iterable[_Union[Constraint, _Mapping]]] = ...,
        spread: _Optional[_Iterable[_Union[Spread, _Mapping]]] = ...,
        task: _Optional[_Union[TaskSpec, _Mapping]] = ...,
        overrides: _Optional[_Mapping[int, TaskOverride]] = ...,
        restart: _Optional[_Union[RestartSpec, _Mapping]] = ...,
        drain_delay_ms: _Optional[int] = ...,
        lost_after_ms: _Optional[int] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        affinity: _Optional[_Iterable[_Union[Affinity, _Mapping]]] = ...,
        tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ...,
        scheduler: _Optional[str] = ...,
        profile: _Optional[str] = ...,
        queue: _Optional[str] = ...,
        gang_topology: _Optional[_Union[GangTopology, _Mapping]] = ...,
        roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ...,
        preemption: _Optional[_Union[Preemption, _Mapping]] = ...,
        description: _Optional[str] = ...,
        progress_deadline_ms: _Optional[int] = ...,
        update: _Optional[_Union[UpdateSpec, _Mapping]] = ...,
        alloc_set: _Optional[str] = ...,
    ) -> None: ...

class UpdateSpec(_message.Message):
    __slots__ = (
        "unavailable_max",
        "unavailable_percent_max",
        "healthy_after_ms",
        "failures_max",
        "on_failure",
        "surge_max",
        "surge_percent_max",
        "canaries",
        "auto_promote",
        "disruptions_max",
        "resize",
        "resize_signal",
    )
    class OnFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ON_FAILURE_UNSPECIFIED: _ClassVar[UpdateSpec.OnFailure]
        REVERT: _ClassVar[UpdateSpec.OnFailure]
        STOP: _ClassVar[UpdateSpec.OnFailure]

    ON_FAILURE_UNSPECIFIED: UpdateSpec.OnFailure
    REVERT: UpdateSpec.OnFailure
    STOP: UpdateSpec.OnFailure
    class Resize(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RESIZE_UNSPECIFIED: _ClassVar[UpdateSpec.Resize]
        IN_PLACE: _ClassVar[UpdateSpec.Resize]
        RESTART: _ClassVar[UpdateSpec.Resize]

    RESIZE_UNSPECIFIED: UpdateSpec.Resize
    IN_PLACE: UpdateSpec.Resize
    RESTART: UpdateSpec.Resize
    class ResizeSignal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RESIZE_SIGNAL_UNSPECIFIED: _ClassVar[UpdateSpec.ResizeSignal]
        SIGHUP: _ClassVar[UpdateSpec.ResizeSignal]
        SIGUSR1: _ClassVar[UpdateSpec.ResizeSignal]
        SIGUSR2: _ClassVar[UpdateSpec.ResizeSignal]
        SIGWINCH: _ClassVar[UpdateSpec.ResizeSignal]

    RESIZE_SIGNAL_UNSPECIFIED: UpdateSpec.ResizeSignal
    SIGHUP: UpdateSpec.ResizeSignal
    SIGUSR1: UpdateSpec.ResizeSignal
    SIGUSR2: UpdateSpec.ResizeSignal
    SIGWINCH: UpdateSpec.ResizeSignal
    UNAVAILABLE_MAX_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_PERCENT_MAX_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_MAX_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    SURGE_MAX_FIELD_NUMBER: _ClassVar[int]
    SURGE_PERCENT_MAX_FIELD_NUMBER: _ClassVar[int]
    CANARIES_FIELD_NUMBER: _ClassVar[int]
    AUTO_PROMOTE_FIELD_NUMBER: _ClassVar[int]
    DISRUPTIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    unavailable_max: int
    unavailable_percent_max: int
    healthy_after_ms: int
    failures_max: int
    on_failure: UpdateSpec.OnFailure
    surge_max: int
    surge_percent_max: int
    canaries: int
    auto_promote: bool
    disruptions_max: int
    resize: UpdateSpec.Resize
    resize_signal: UpdateSpec.ResizeSignal
    def __init__(
        self,
        unavailable_max: _Optional[int] = ...,
        unavailable_percent_max: _Optional[int] = ...,
        healthy_after_ms: _Optional[int] = ...,
        failures_max: _Optional[int] = ...,
        on_failure: _Optional[_Union[UpdateSpec.OnFailure, str]] = ...,
        surge_max: _Optional[int] = ...,
        surge_percent_max: _Optional[int] = ...,
        canaries: _Optional[int] = ...,
        auto_promote: bool = ...,
        disruptions_max: _Optional[int] = ...,
        resize: _Optional[_Union[UpdateSpec.Resize, str]] = ...,
        resize_signal: _Optional[_Union[UpdateSpec.ResizeSignal, str]] = ...,
    ) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("never", "notice_max_ms", "down_max")
    NEVER_FIELD_NUMBER: _ClassVar[int]
    NOTICE_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    DOWN_MAX_FIELD_NUMBER: _ClassVar[int]
    never: bool
    notice_max_ms: int
    down_max: int
    def __init__(
        self, never: bool = ..., notice_max_ms: _Optional[int] = ..., down_max: _Optional[int] = ...
    ) -> None: ...

class GangTopology(_message.Message):
    __slots__ = ("attribute", "domains_min", "domains_max", "preferred")
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_MIN_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_MAX_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    domains_min: int
    domains_max: int
    preferred: bool
    def __init__(
        self,
        attribute: _Optional[str] = ...,
        domains_min: _Optional[int] = ...,
        domains_max: _Optional[int] = ...,
        preferred: bool = ...,
    ) -> None: ...

class Role(_message.Message):
    __slots__ = ("name", "count", "min_member", "task")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_MEMBER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    min_member: int
    task: TaskOverride
    def __init__(
        self,
        name: _Optional[str] = ...,
        count: _Optional[int] = ...,
        min_member: _Optional[int] = ...,
        task: _Optional[_Union[TaskOverride, _Mapping]] = ...,
    ) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "operator", "value", "effect", "evict_after_ms")
    class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPERATOR_UNSPECIFIED: _ClassVar[Toleration.Operator]
        EQUAL: _ClassVar[Toleration.Operator]
        EXISTS: _ClassVar[Toleration.Operator]

    OPERATOR_UNSPECIFIED: Toleration.Operator
    EQUAL: Toleration.Operator
    EXISTS: Toleration.Operator
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    EVICT_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: Toleration.Operator
    value: str
    effect: _common_pb2.TaintEffect
    evict_after_ms: int
    def __init__(
        self,
        key: _Optional[str] = ...,
        operator: _Optional[_Union[Toleration.Operator, str]] = ...,
        value: _Optional[str] = ...,
        effect: _Optional[_Union[_common_pb2.TaintEffect, str]] = ...,
        evict_after_ms: _Optional[int] = ...,
    ) -> None: ...

class After(_message.Message):
    __slots__ = ("job", "condition")
    class Condition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONDITION_UNSPECIFIED: _ClassVar[After.Condition]
        FINISHED: _ClassVar[After.Condition]
        SUCCEEDED: _ClassVar[After.Condition]

    CONDITION_UNSPECIFIED: After.Condition
    FINISHED: After.Condition
    SUCCEEDED: After.Condition
    JOB_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    job: str
    condition: After.Condition
    def __init__(self, job: _Optional[str] = ..., condition: _Optional[_Union[After.Condition, str]] = ...) -> None: ...

class Constraint(_message.Message):
    __slots__ = ("attribute", "operator", "values", "preference")
    class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPERATOR_UNSPECIFIED: _ClassVar[Constraint.Operator]
        IN: _ClassVar[Constraint.Operator]
        NOT_IN: _ClassVar[Constraint.Operator]
        EXISTS: _ClassVar[Constraint.Operator]
        ABSENT: _ClassVar[Constraint.Operator]
        GREATER_THAN: _ClassVar[Constraint.Operator]
        LESS_THAN: _ClassVar[Constraint.Operator]

    OPERATOR_UNSPECIFIED: Constraint.Operator
    IN: Constraint.Operator
    NOT_IN: Constraint.Operator
    EXISTS: Constraint.Operator
    ABSENT: Constraint.Operator
    GREATER_THAN: Constraint.Operator
    LESS_THAN: Constraint.Operator
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    operator: Constraint.Operator
    values: _containers.RepeatedScalarFieldContainer[str]
    preference: int
    def __init__(
        self,
        attribute: _Optional[str] = ...,
        operator: _Optional[_Union[Constraint.Operator, str]] = ...,
        values: _Optional[_Iterable[str]] = ...,
        preference: _Optional[int] = ...,
    ) -> None: ...

class Spread(_message.Message):
    __slots__ = ("attribute", "weight", "max_skew", "tasks_max", "percent_max")
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    TASKS_MAX_FIELD_NUMBER: _ClassVar[int]
    PERCENT_MAX_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    weight: int
    max_skew: int
    tasks_max: int
    percent_max: int
    def __init__(
        self,
        attribute: _Optional[str] = ...,
        weight: _Optional[int] = ...,
        max_skew: _Optional[int] = ...,
        tasks_max: _Optional[int] = ...,
        percent_max: _Optional[int] = ...,
    ) -> None: ...

class Affinity(_message.Message):
    __slots__ = ("kind", "attribute", "jobs", "preference")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Affinity.Kind]
        NEAR: _ClassVar[Affinity.Kind]
        APART: _ClassVar[Affinity.Kind]

    KIND_UNSPECIFIED: Affinity.Kind
    NEAR: Affinity.Kind
    APART: Affinity.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    kind: Affinity.Kind
    attribute: str
    jobs: _containers.RepeatedCompositeFieldContainer[Constraint]
    preference: int
    def __init__(
        self,
        kind: _Optional[_Union[Affinity.Kind, str]] = ...,
        attribute: _Optional[str] = ...,
        jobs: _Optional[_Iterable[_Union[Constraint, _Mapping]]] = ...,
        preference: _Optional[int] = ...,
    ) -> None: ...

class TaskSpec(_message.Message):
    __slots__ = (
        "command",
        "environment",
        "working_directory",
        "resources",
        "ports",
        "health",
        "grace_ms",
        "log",
        "weight",
        "device_selectors",
        "within",
        "packages",
        "exclusive_cores",
        "helpers",
        "identities",
        "secrets",
    )
    class Within(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WITHIN_UNSPECIFIED: _ClassVar[TaskSpec.Within]
        ONE_SOCKET: _ClassVar[TaskSpec.Within]
        ONE_NUMA_NODE: _ClassVar[TaskSpec.Within]

    WITHIN_UNSPECIFIED: TaskSpec.Within
    ONE_SOCKET: TaskSpec.Within
    ONE_NUMA_NODE: TaskSpec.Within
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    class DeviceSelectorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeviceSelector
        def __init__(
            self, key: _Optional[str] = ..., value: _Optional[_Union[DeviceSelector, _Mapping]] = ...
        ) -> None: ...

    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_CORES_FIELD_NUMBER: _ClassVar[int]
    HELPERS_FIELD_NUMBER: _ClassVar[int]
    IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    working_directory: str
    resources: _common_pb2.Resources
    ports: _containers.RepeatedCompositeFieldContainer[PortSpec]
    health: HealthCheck
    grace_ms: int
    log: LogSpec
    weight: int
    device_selectors: _containers.MessageMap[str, DeviceSelector]
    within: TaskSpec.Within
    packages: _containers.RepeatedScalarFieldContainer[str]
    exclusive_cores: bool
    helpers: _containers.RepeatedCompositeFieldContainer[HelperSpec]
    identities: _containers.RepeatedCompositeFieldContainer[IdentitySpec]
    secrets: _containers.RepeatedCompositeFieldContainer[SecretReference]
    def __init__(
        self,
        command: _Optional[_Iterable[str]] = ...,
        environment: _Optional[_Mapping[str, str]] = ...,
        working_directory: _Optional[str] = ...,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        ports: _Optional[_Iterable[_Union[PortSpec, _Mapping]]] = ...,
        health: _Optional[_Union[HealthCheck, _Mapping]] = ...,
        grace_ms: _Optional[int] = ...,
        log: _Optional[_Union[LogSpec, _Mapping]] = ...,
        weight: _Optional[int] = ...,
        device_selectors: _Optional[_Mapping[str, DeviceSelector]] = ...,
        within: _Optional[_Union[TaskSpec.Within, str]] = ...,
        packages: _Optional[_Iterable[str]] = ...,
        exclusive_cores: bool = ...,
        helpers: _Optional[_Iterable[_Union[HelperSpec, _Mapping]]] = ...,
        identities: _Optional[_Iterable[_Union[IdentitySpec, _Mapping]]] = ...,
        secrets: _Optional[_Iterable[_Union[SecretReference, _Mapping]]] = ...,
    ) -> None: ...

class IdentitySpec(_message.Message):
    __slots__ = ("name", "audience", "ttl_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    audience: str
    ttl_ms: int
    def __init__(
        self, name: _Optional[str] = ..., audience: _Optional[str] = ..., ttl_ms: _Optional[int] = ...
    ) -> None: ...

class SecretReference(_message.Message):
    __slots__ = ("name", "source", "form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    form: SecretForm
    def __init__(
        self, name: _Optional[str] = ..., source: _Optional[str] = ..., form: _Optional[_Union[SecretForm, str]] = ...
    ) -> None: ...

class HelperSpec(_message.Message):
    __slots__ = ("name", "when", "command", "environment", "cpu_millis", "memory_bytes", "deadline_ms")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    NAME_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    when: _common_pb2.HelperPhase
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    cpu_millis: int
    memory_bytes: int
    deadline_ms: int
    def __init__(
        self,
        name: _Optional[str] = ...,
        when: _Optional[_Union[_common_pb2.HelperPhase, str]] = ...,
        command: _Optional[_Iterable[str]] = ...,
        environment: _Optional[_Mapping[str, str]] = ...,
        cpu_millis: _Optional[int] = ...,
        memory_bytes: _Optional[int] = ...,
        deadline_ms: _Optional[int] = ...,
    ) -> None: ...

class DeviceSelector(_message.Message):
    __slots__ = ("models", "memory_bytes_min")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MIN_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedScalarFieldContainer[str]
    memory_bytes_min: int
    def __init__(self, models: _Optional[_Iterable[str]] = ..., memory_bytes_min: _Optional[int] = ...) -> None: ...

class TaskOverride(_message.Message):
    __slots__ = ("command", "arguments", "environment", "resources", "weight")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    command: _containers.RepeatedScalarFieldContainer[str]
    arguments: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    resources: _common_pb2.Resources
    weight: int
    def __init__(
        self,
        command: _Optional[_Iterable[str]] = ...,
        arguments: _Optional[_Iterable[str]] = ...,
        environment: _Optional[_Mapping[str, str]] = ...,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        weight: _Optional[int] = ...,
    ) -> None: ...

class PortSpec(_message.Message):
    __slots__ = ("name", "number")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class HealthCheck(_message.Message):
    __slots__ = ("http", "tcp", "command", "interval_ms", "timeout_ms", "failures_max", "initial_grace_ms")
    HTTP_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_MAX_FIELD_NUMBER: _ClassVar[int]
    INITIAL_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    http: HttpProbe
    tcp: TcpProbe
    command: CommandProbe
    interval_ms: int
    timeout_ms: int
    failures_max: int
    initial_grace_ms: int
    def __init__(
        self,
        http: _Optional[_Union[HttpProbe, _Mapping]] = ...,
        tcp: _Optional[_Union[TcpProbe, _Mapping]] = ...,
        command: _Optional[_Union[CommandProbe, _Mapping]] = ...,
        interval_ms: _Optional[int] = ...,
        timeout_ms: _Optional[int] = ...,
        failures_max: _Optional[int] = ...,
        initial_grace_ms: _Optional[int] = ...,
    ) -> None: ...

class HttpProbe(_message.Message):
    __slots__ = ("port", "path")
    PORT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    port: str
    path: str
    def __init__(self, port: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class TcpProbe(_message.Message):
    __slots__ = ("port",)
    PORT_FIELD_NUMBER: _ClassVar[int]
    port: str
    def __init__(self, port: _Optional[str] = ...) -> None: ...

class CommandProbe(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, command: _Optional[_Iterable[str]] = ...) -> None: ...

class LogSpec(_message.Message):
    __slots__ = ("file_bytes_max", "files_max")
    FILE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    FILES_MAX_FIELD_NUMBER: _ClassVar[int]
    file_bytes_max: int
    files_max: int
    def __init__(self, file_bytes_max: _Optional[int] = ..., files_max: _Optional[int] = ...) -> None: ...

class RestartSpec(_message.Message):
    __slots__ = ("mode", "attempts_max", "backoff_initial_ms", "backoff_max_ms", "reset_after_ms")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[RestartSpec.Mode]
        ALWAYS: _ClassVar[RestartSpec.Mode]
        ON_FAILURE: _ClassVar[RestartSpec.Mode]
        NEVER: _ClassVar[RestartSpec.Mode]

    MODE_UNSPECIFIED: RestartSpec.Mode
    ALWAYS: RestartSpec.Mode
    ON_FAILURE: RestartSpec.Mode
    NEVER: RestartSpec.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_INITIAL_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    RESET_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    mode: RestartSpec.Mode
    attempts_max: int
    backoff_initial_ms: int
    backoff_max_ms: int
    reset_after_ms: int
    def __init__(
        self,
        mode: _Optional[_Union[RestartSpec.Mode, str]] = ...,
        attempts_max: _Optional[int] = ...,
        backoff_initial_ms: _Optional[int] = ...,
        backoff_max_ms: _Optional[int] = ...,
        reset_after_ms: _Optional[int] = ...,
    ) -> None: ...

class Job(_message.Message):
    __slots__ = (
        "id",
        "cell",
        "user",
        "name",
        "state",
        "count",
        "priority",
        "spec_version",
        "submitted_ms",
        "changed_ms",
        "tasks",
        "kind",
        "revision",
        "labels",
        "description",
        "usage",
        "rollout",
        "changed_revision",
        "changed_by",
        "daemon",
        "surge",
        "alloc_jobs",
    )
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    ID_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPEC_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    SURGE_FIELD_NUMBER: _ClassVar[int]
    ALLOC_JOBS_FIELD_NUMBER: _ClassVar[int]
    id: str
    cell: str
    user: str
    name: str
    state: JobState
    count: int
    priority: int
    spec_version: int
    submitted_ms: int
    changed_ms: int
    tasks: TaskCounts
    kind: JobKind
    revision: int
    labels: _containers.ScalarMap[str, str]
    description: str
    usage: JobUsage
    rollout: Rollout
    changed_revision: int
    changed_by: str
    daemon: DaemonStatus
    surge: int
    alloc_jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        id: _Optional[str] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        state: _Optional[_Union[JobState, str]] = ...,
        count: _Optional[int] = ...,
        priority: _Optional[int] = ...,
        spec_version: _Optional[int] = ...,
        submitted_ms: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        tasks: _Optional[_Union[TaskCounts, _Mapping]] = ...,
        kind: _Optional[_Union[JobKind, str]] = ...,
        revision: _Optional[int] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        description: _Optional[str] = ...,
        usage: _Optional[_Union[JobUsage, _Mapping]] = ...,
        rollout: _Optional[_Union[Rollout, _Mapping]] = ...,
        changed_revision: _Optional[int] = ...,
        changed_by: _Optional[str] = ...,
        daemon: _Optional[_Union[DaemonStatus, _Mapping]] = ...,
        surge: _Optional[int] = ...,
        alloc_jobs: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class DaemonStatus(_message.Message):
    __slots__ = ("looked", "indexes", "unadmitted", "left")
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    UNADMITTED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    looked: bool
    indexes: int
    unadmitted: int
    left: int
    def __init__(
        self,
        looked: bool = ...,
        indexes: _Optional[int] = ...,
        unadmitted: _Optional[int] = ...,
        left: _Optional[int] = ...,
    ) -> None: ...

class Rollout(_message.Message):
    __slots__ = (
        "state",
        "version",
        "begun_ms",
        "by",
        "reverts",
        "failure",
        "versions",
        "progress",
        "surge",
        "canaries",
        "canaries_healthy_ms",
        "disruptions",
        "skipped",
        "untried",
    )
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REVERTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SURGE_FIELD_NUMBER: _ClassVar[int]
    CANARIES_FIELD_NUMBER: _ClassVar[int]
    CANARIES_HEALTHY_MS_FIELD_NUMBER: _ClassVar[int]
    DISRUPTIONS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    UNTRIED_FIELD_NUMBER: _ClassVar[int]
    state: RolloutState
    version: int
    begun_ms: int
    by: str
    reverts: int
    failure: str
    versions: _containers.RepeatedScalarFieldContainer[int]
    progress: RolloutProgress
    surge: int
    canaries: int
    canaries_healthy_ms: int
    disruptions: int
    skipped: int
    untried: bool
    def __init__(
        self,
        state: _Optional[_Union[RolloutState, str]] = ...,
        version: _Optional[int] = ...,
        begun_ms: _Optional[int] = ...,
        by: _Optional[str] = ...,
        reverts: _Optional[int] = ...,
        failure: _Optional[str] = ...,
        versions: _Optional[_Iterable[int]] = ...,
        progress: _Optional[_Union[RolloutProgress, _Mapping]] = ...,
        surge: _Optional[int] = ...,
        canaries: _Optional[int] = ...,
        canaries_healthy_ms: _Optional[int] = ...,
        disruptions: _Optional[int] = ...,
        skipped: _Optional[int] = ...,
        untried: bool = ...,
    ) -> None: ...

class RolloutProgress(_message.Message):
    __slots__ = ("concerned", "updated", "healthy", "surging", "surging_healthy", "proving")
    CONCERNED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    SURGING_FIELD_NUMBER: _ClassVar[int]
    SURGING_HEALTHY_FIELD_NUMBER: _ClassVar[int]
    PROVING_FIELD_NUMBER: _ClassVar[int]
    concerned: int
    updated: int
    healthy: int
    surging: int
    surging_healthy: int
    proving: int
    def __init__(
        self,
        concerned: _Optional[int] = ...,
        updated: _Optional[int] = ...,
        healthy: _Optional[int] = ...,
        surging: _Optional[int] = ...,
        surging_healthy: _Optional[int] = ...,
        proving: _Optional[int] = ...,
    ) -> None: ...

class OrderRolloutRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "order", "version", "expected_version")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORDER_UNSPECIFIED: _ClassVar[OrderRolloutRequest.Order]
        PAUSE: _ClassVar[OrderRolloutRequest.Order]
        RESUME: _ClassVar[OrderRolloutRequest.Order]
        UNDO: _ClassVar[OrderRolloutRequest.Order]
        PROMOTE: _ClassVar[OrderRolloutRequest.Order]

    ORDER_UNSPECIFIED: OrderRolloutRequest.Order
    PAUSE: OrderRolloutRequest.Order
    RESUME: OrderRolloutRequest.Order
    UNDO: OrderRolloutRequest.Order
    PROMOTE: OrderRolloutRequest.Order
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    order: OrderRolloutRequest.Order
    version: int
    expected_version: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        order: _Optional[_Union[OrderRolloutRequest.Order, str]] = ...,
        version: _Optional[int] = ...,
        expected_version: _Optional[int] = ...,
    ) -> None: ...

class OrderRolloutResponse(_message.Message):
    __slots__ = ("job", "cursor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    cursor: _common_pb2.Cursor
    def __init__(
        self, job: _Optional[_Union[Job, _Mapping]] = ..., cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...
    ) -> None: ...

class JobUsage(_message.Message):
    __slots__ = ("charged", "charged_cpu_millis", "charged_memory_bytes", "sampled", "cpu_millis", "memory_bytes")
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    CHARGED_CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    CHARGED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    charged: int
    charged_cpu_millis: int
    charged_memory_bytes: int
    sampled: int
    cpu_millis: int
    memory_bytes: int
    def __init__(
        self,
        charged: _Optional[int] = ...,
        charged_cpu_millis: _Optional[int] = ...,
        charged_memory_bytes: _Optional[int] = ...,
        sampled: _Optional[int] = ...,
        cpu_millis: _Optional[int] = ...,
        memory_bytes: _Optional[int] = ...,
    ) -> None: ...

class TaskCounts(_message.Message):
    __slots__ = (
        "pending",
        "held",
        "assigned",
        "starting",
        "running",
        "healthy",
        "stopping",
        "releasing",
        "lost",
        "succeeded",
        "failed",
    )
    PENDING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    STARTING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    RELEASING_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    pending: int
    held: int
    assigned: int
    starting: int
    running: int
    healthy: int
    stopping: int
    releasing: int
    lost: int
    succeeded: int
    failed: int
    def __init__(
        self,
        pending: _Optional[int] = ...,
        held: _Optional[int] = ...,
        assigned: _Optional[int] = ...,
        starting: _Optional[int] = ...,
        running: _Optional[int] = ...,
        healthy: _Optional[int] = ...,
        stopping: _Optional[int] = ...,
        releasing: _Optional[int] = ...,
        lost: _Optional[int] = ...,
        succeeded: _Optional[int] = ...,
        failed: _Optional[int] = ...,
    ) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("context", "cell", "spec", "expected_revision", "expected_job", "expected_absent")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_JOB_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_ABSENT_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    spec: JobSpec
    expected_revision: int
    expected_job: str
    expected_absent: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        spec: _Optional[_Union[JobSpec, _Mapping]] = ...,
        expected_revision: _Optional[int] = ...,
        expected_job: _Optional[str] = ...,
        expected_absent: bool = ...,
    ) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job", "changed", "diff", "cursor", "warnings")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    job: Job
    changed: bool
    diff: _containers.RepeatedCompositeFieldContainer[FieldChange]
    cursor: _common_pb2.Cursor
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        job: _Optional[_Union[Job, _Mapping]] = ...,
        changed: bool = ...,
        diff: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        warnings: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class FieldChange(_message.Message):
    __slots__ = ("path", "old_json", "new_json")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OLD_JSON_FIELD_NUMBER: _ClassVar[int]
    NEW_JSON_FIELD_NUMBER: _ClassVar[int]
    path: str
    old_json: str
    new_json: str
    def __init__(
        self, path: _Optional[str] = ..., old_json: _Optional[str] = ..., new_json: _Optional[str] = ...
    ) -> None: ...

class PlanJobRequest(_message.Message):
    __slots__ = ("context", "cell", "spec")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    spec: JobSpec
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        spec: _Optional[_Union[JobSpec, _Mapping]] = ...,
    ) -> None: ...

class PlanJobResponse(_message.Message):
    __slots__ = (
        "changed",
        "diff",
        "revision",
        "placements",
        "unplaced",
        "refusal",
        "stopped",
        "cursor",
        "scheduler",
        "warnings",
        "job_id",
        "file_diff",
        "replaced",
        "unavailable_max",
        "changed_revision",
        "surge",
        "canaries",
        "needs",
    )
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_DIFF_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_MAX_FIELD_NUMBER: _ClassVar[int]
    CHANGED_REVISION_FIELD_NUMBER: _ClassVar[int]
    SURGE_FIELD_NUMBER: _ClassVar[int]
    CANARIES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    diff: _containers.RepeatedCompositeFieldContainer[FieldChange]
    revision: int
    placements: _containers.RepeatedCompositeFieldContainer[PlannedPlacement]
    unplaced: _containers.RepeatedCompositeFieldContainer[_task_pb2.Explanation]
    refusal: str
    stopped: _containers.RepeatedScalarFieldContainer[int]
    cursor: _common_pb2.Cursor
    scheduler: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    job_id: str
    file_diff: _containers.RepeatedCompositeFieldContainer[FieldChange]
    replaced: _containers.RepeatedScalarFieldContainer[int]
    unavailable_max: int
    changed_revision: int
    surge: int
    canaries: int
    needs: _containers.RepeatedCompositeFieldContainer[PlannedNeed]
    def __init__(
        self,
        changed: bool = ...,
        diff: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...,
        revision: _Optional[int] = ...,
        placements: _Optional[_Iterable[_Union[PlannedPlacement, _Mapping]]] = ...,
        unplaced: _Optional[_Iterable[_Union[_task_pb2.Explanation, _Mapping]]] = ...,
        refusal: _Optional[str] = ...,
        stopped: _Optional[_Iterable[int]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        scheduler: _Optional[str] = ...,
        warnings: _Optional[_Iterable[str]] = ...,
        job_id: _Optional[str] = ...,
        file_diff: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...,
        replaced: _Optional[_Iterable[int]] = ...,
        unavailable_max: _Optional[int] = ...,
        changed_revision: _Optional[int] = ...,
        surge: _Optional[int] = ...,
        canaries: _Optional[int] = ...,
        needs: _Optional[_Iterable[_Union[PlannedNeed, _Mapping]]] = ...,
    ) -> None: ...

class PlannedNeed(_message.Message):
    __slots__ = ("need", "indexes", "why")
    class Need(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NEED_UNSPECIFIED: _ClassVar[PlannedNeed.Need]
        NOTHING: _ClassVar[PlannedNeed.Need]
        RESIZE: _ClassVar[PlannedNeed.Need]
        REPLACE: _ClassVar[PlannedNeed.Need]
        WEIGHT: _ClassVar[PlannedNeed.Need]

    NEED_UNSPECIFIED: PlannedNeed.Need
    NOTHING: PlannedNeed.Need
    RESIZE: PlannedNeed.Need
    REPLACE: PlannedNeed.Need
    WEIGHT: PlannedNeed.Need
    NEED_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    need: PlannedNeed.Need
    indexes: _containers.RepeatedScalarFieldContainer[int]
    why: str
    def __init__(
        self,
        need: _Optional[_Union[PlannedNeed.Need, str]] = ...,
        indexes: _Optional[_Iterable[int]] = ...,
        why: _Optional[str] = ...,
    ) -> None: ...

class PlannedPlacement(_message.Message):
    __slots__ = ("index", "node", "ports", "held", "victims", "again", "alloc")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    ALLOC_FIELD_NUMBER: _ClassVar[int]
    index: int
    node: str
    ports: _containers.RepeatedCompositeFieldContainer[_task_pb2.Port]
    held: bool
    victims: _containers.RepeatedCompositeFieldContainer[_task_pb2.Victim]
    again: bool
    alloc: str
    def __init__(
        self,
        index: _Optional[int] = ...,
        node: _Optional[str] = ...,
        ports: _Optional[_Iterable[_Union[_task_pb2.Port, _Mapping]]] = ...,
        held: bool = ...,
        victims: _Optional[_Iterable[_Union[_task_pb2.Victim, _Mapping]]] = ...,
        again: bool = ...,
        alloc: _Optional[str] = ...,
        **kwargs,
    ) -> None: ...

class ScaleJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "count", "expected_job", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_JOB_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    count: int
    expected_job: str
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        count: _Optional[int] = ...,
        expected_job: _Optional[str] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class ScaleJobResponse(_message.Message):
    __slots__ = ("job", "cursor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    cursor: _common_pb2.Cursor
    def __init__(
        self, job: _Optional[_Union[Job, _Mapping]] = ..., cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...
    ) -> None: ...

class StopJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "expected_job")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_JOB_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    expected_job: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        expected_job: _Optional[str] = ...,
    ) -> None: ...

class StopJobResponse(_message.Message):
    __slots__ = ("job", "cursor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    cursor: _common_pb2.Cursor
    def __init__(
        self, job: _Optional[_Union[Job, _Mapping]] = ..., cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...
    ) -> None: ...

class PurgeJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class PurgeJobResponse(_message.Message):
    __slots__ = ("jobs", "cursor")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    cursor: _common_pb2.Cursor
    def __init__(
        self, jobs: _Optional[int] = ..., cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...
    ) -> None: ...

class LabelJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "labels", "remove")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    labels: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        remove: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class LabelJobResponse(_message.Message):
    __slots__ = ("job", "cursor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    cursor: _common_pb2.Cursor
    def __init__(
        self, job: _Optional[_Union[Job, _Mapping]] = ..., cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...
    ) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job", "spec", "cursor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    spec: JobSpec
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        job: _Optional[_Union[Job, _Mapping]] = ...,
        spec: _Optional[_Union[JobSpec, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "ended", "page", "labels", "selector", "states", "usage")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    ended: bool
    page: _common_pb2.PageRequest
    labels: _containers.ScalarMap[str, str]
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    states: _containers.RepeatedScalarFieldContainer[JobState]
    usage: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        ended: bool = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        states: _Optional[_Iterable[_Union[JobState, str]]] = ...,
        usage: bool = ...,
    ) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page", "cursor")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page: str
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...,
        next_page: _Optional[str] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class GetJobHistoryRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class GetJobHistoryResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[JobVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[JobVersion, _Mapping]]] = ...) -> None: ...

class JobVersion(_message.Message):
    __slots__ = ("job", "version", "spec", "at_ms", "by", "revision", "count_before", "priority_before")
    JOB_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COUNT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_BEFORE_FIELD_NUMBER: _ClassVar[int]
    job: Job
    version: int
    spec: JobSpec
    at_ms: int
    by: str
    revision: int
    count_before: int
    priority_before: int
    def __init__(
        self,
        job: _Optional[_Union[Job, _Mapping]] = ...,
        version: _Optional[int] = ...,
        spec: _Optional[_Union[JobSpec, _Mapping]] = ...,
        at_ms: _Optional[int] = ...,
        by: _Optional[str] = ...,
        revision: _Optional[int] = ...,
        count_before: _Optional[int] = ...,
        priority_before: _Optional[int] = ...,
    ) -> None: ...
