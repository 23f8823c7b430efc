//! Values of the wire and of the model. The build script writes the conversions of whole messages from the `.proto`
//! files: what a field's two types have to do with each other stands here.

use std::collections::BTreeMap;
use std::fmt;

use borough_model::job::{
    AffinityKind, AfterCondition, ConstraintOperator, HealthCheck, HelperPhase, JobKind, LogSpec, OnFailure,
    ResizeMode, ResizeSignal, RestartMode, RestartSpec, SecretForm, TaskOverride, TaskSpec,
    TolerationOperator,
};
use borough_model::node::{TaintEffect, Within};
use borough_model::{Name, Resources};

use super::taint::{effect_from_message, effect_to_message};
use super::{FieldRefused, name_from_text};
use crate::v1;

/// A type of the wire that stands for the type `M` of the model.
pub(super) trait Wire<M>: Sized {
    /// The model's value as it is sent.
    fn of(model: &M) -> Self;

    /// The value that was sent in the field at `path`.
    fn read(&self, path: &WirePath<'_>) -> Result<M, FieldRefused>;
}

/// The path of a field, written out only where it is refused.
pub(super) enum WirePath<'p> {
    Root,
    Field(&'p WirePath<'p>, &'static str),
    Index(&'p WirePath<'p>, usize),
    Key(&'p WirePath<'p>, &'p dyn fmt::Debug),
}

impl WirePath<'_> {
    pub(super) fn field(&self, name: &'static str) -> WirePath<'_> {
        WirePath::Field(self, name)
    }

    pub(super) fn refuse(&self, value: impl Into<String>, accepted: impl Into<String>) -> FieldRefused {
        FieldRefused::new(self.to_string(), value, accepted)
    }
}

impl fmt::Display for WirePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(outer, name) => write!(f, "{outer}.{name}"),
            Self::Index(outer, index) => write!(f, "{outer}[{index}]"),
            Self::Key(outer, key) => write!(f, "{outer}[{key:?}]"),
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

/// Types that are the same on both sides.
macro_rules! same {
    ($($same:ty),*) => {
        $(impl Wire<$same> for $same {
            fn of(model: &$same) -> Self {
                model.clone()
            }

            fn read(&self, _: &WirePath<'_>) -> Result<$same, FieldRefused> {
                Ok(self.clone())
            }
        })*
    };
}

same!(bool, u32, u64, String);

impl Wire<Name> for String {
    fn of(model: &Name) -> Self {
        model.to_string()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Name, FieldRefused> {
        name_from_text("", self).map_err(|refused| FieldRefused { field: path.to_string(), ..refused })
    }
}

/// An empty text is none.
impl<M> Wire<Option<M>> for String
where
    String: Wire<M>,
{
    fn of(model: &Option<M>) -> Self {
        model.as_ref().map(|model| <Self as Wire<M>>::of(model)).unwrap_or_default()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Option<M>, FieldRefused> {
        let read = || <Self as Wire<M>>::read(self, path);
        (!self.is_empty()).then(read).transpose()
    }
}

impl Wire<u16> for u32 {
    fn of(model: &u16) -> Self {
        Self::from(*model)
    }

    fn read(&self, path: &WirePath<'_>) -> Result<u16, FieldRefused> {
        u16::try_from(*self).map_err(|_| path.refuse(self.to_string(), "1024 to 65535"))
    }
}

impl<W: Wire<M>, M> Wire<Option<M>> for Option<W> {
    fn of(model: &Option<M>) -> Self {
        model.as_ref().map(W::of)
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Option<M>, FieldRefused> {
        self.as_ref().map(|wire| wire.read(path)).transpose()
    }
}

impl<W: Wire<M>, M> Wire<Vec<M>> for Vec<W> {
    fn of(model: &Vec<M>) -> Self {
        model.iter().map(W::of).collect()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Vec<M>, FieldRefused> {
        self.iter().enumerate().map(|(at, wire)| wire.read(&WirePath::Index(path, at))).collect()
    }
}

/// An empty list is none.
impl Wire<Option<Vec<String>>> for Vec<String> {
    fn of(model: &Option<Vec<String>>) -> Self {
        model.clone().unwrap_or_default()
    }

    fn read(&self, _: &WirePath<'_>) -> Result<Option<Vec<String>>, FieldRefused> {
        Ok(Some(self.clone()).filter(|texts| !texts.is_empty()))
    }
}

impl<K: Ord + Clone + fmt::Debug, W: Wire<M>, M> Wire<BTreeMap<K, M>> for BTreeMap<K, W> {
    fn of(model: &BTreeMap<K, M>) -> Self {
        model.iter().map(|(key, value)| (key.clone(), W::of(value))).collect()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<BTreeMap<K, M>, FieldRefused> {
        let entry = |(key, wire): (&K, &W)| Ok((key.clone(), wire.read(&WirePath::Key(path, key))?));
        self.iter().map(entry).collect()
    }
}

/// Messages that must be there; the text says what is missing.
macro_rules! required {
    ($($wire:ty, $model:ty, $accepted:literal;)*) => {
        $(impl Wire<$model> for Option<$wire> {
            fn of(model: &$model) -> Self {
                Some(Wire::of(model))
            }

            fn read(&self, path: &WirePath<'_>) -> Result<$model, FieldRefused> {
                self.as_ref().ok_or_else(|| path.refuse("", $accepted))?.read(path)
            }
        })*
    };
}

required! {
    v1::TaskSpec, TaskSpec, "what each task runs";
    v1::RestartSpec, RestartSpec, "mode and back-off";
    v1::LogSpec, LogSpec, "file_bytes_max and files_max";
}

/// Messages whose absence is the default.
macro_rules! defaulted {
    ($($wire:ty, $model:ty;)*) => {
        $(impl Wire<$model> for Option<$wire> {
            fn of(model: &$model) -> Self {
                Some(Wire::of(model))
            }

            fn read(&self, path: &WirePath<'_>) -> Result<$model, FieldRefused> {
                self.as_ref().map_or_else(|| Ok(<$model>::default()), |message| message.read(path))
            }
        })*
    };
}

defaulted! {
    v1::Resources, Resources;
    v1::TaskOverride, TaskOverride;
}

/// Enumerations: what the value 0 is, and what is accepted.
macro_rules! words {
    ($($model:ident = $wire:path, $accepted:literal, $unspecified:expr, [$($word:ident),*];)*) => {
        $(impl Wire<$model> for i32 {
            fn of(model: &$model) -> Self {
                use $wire as Word;
                match model {
                    $($model::$word => Word::$word.into(),)*
                }
            }

            fn read(&self, path: &WirePath<'_>) -> Result<$model, FieldRefused> {
                use $wire as Word;
                let unspecified: Option<$model> = $unspecified;
                let word = match Word::try_from(*self) {
                    $(Ok(Word::$word) => Some($model::$word),)*
                    Ok(Word::Unspecified) => unspecified,
                    Err(_) => None,
                };
                word.ok_or_else(|| path.refuse(self.to_string(), $accepted))
            }
        })*
    };
}

words! {
    JobKind = v1::JobKind, "service, batch, daemon or alloc_set", None, [Service, Batch, Daemon, AllocSet];
    AfterCondition = v1::after::Condition, "finished or succeeded", Some(AfterCondition::Succeeded),
        [Finished, Succeeded];
    OnFailure = v1::update_spec::OnFailure, "revert or stop", Some(OnFailure::Revert), [Revert, Stop];
    ResizeMode = v1::update_spec::Resize, "in_place or restart", Some(ResizeMode::InPlace), [InPlace, Restart];
    HelperPhase = v1::HelperPhase, "before, beside or after", None, [Before, Beside, After];
    SecretForm = v1::SecretForm, "variable or file", Some(SecretForm::Variable), [Variable, File];
    RestartMode = v1::restart_spec::Mode, "always, on_failure or never", None, [Always, OnFailure, Never];
    AffinityKind = v1::affinity::Kind, "near or apart", None, [Near, Apart];
    TolerationOperator = v1::toleration::Operator, "equal or exists", None, [Equal, Exists];
    ConstraintOperator = v1::constraint::Operator, "in, not_in, exists, absent, greater_than or less_than", None,
        [In, NotIn, Exists, Absent, GreaterThan, LessThan];
}

impl Wire<Option<Within>> for i32 {
    fn of(model: &Option<Within>) -> Self {
        let within = match model {
            None => v1::task_spec::Within::Unspecified,
            Some(Within::OneSocket) => v1::task_spec::Within::OneSocket,
            Some(Within::OneNumaNode) => v1::task_spec::Within::OneNumaNode,
        };
        within.into()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Option<Within>, FieldRefused> {
        match v1::task_spec::Within::try_from(*self) {
            Ok(v1::task_spec::Within::Unspecified) => Ok(None),
            Ok(v1::task_spec::Within::OneSocket) => Ok(Some(Within::OneSocket)),
            Ok(v1::task_spec::Within::OneNumaNode) => Ok(Some(Within::OneNumaNode)),
            Err(_) => Err(path.refuse(self.to_string(), "one_socket, one_numa_node or nothing")),
        }
    }
}

impl Wire<Option<ResizeSignal>> for i32 {
    fn of(model: &Option<ResizeSignal>) -> Self {
        use v1::update_spec::ResizeSignal as Word;
        let signal = match model {
            None => Word::Unspecified,
            Some(ResizeSignal::Hup) => Word::Sighup,
            Some(ResizeSignal::Usr1) => Word::Sigusr1,
            Some(ResizeSignal::Usr2) => Word::Sigusr2,
            Some(ResizeSignal::Winch) => Word::Sigwinch,
        };
        signal.into()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Option<ResizeSignal>, FieldRefused> {
        use v1::update_spec::ResizeSignal as Word;
        match Word::try_from(*self) {
            Ok(Word::Unspecified) => Ok(None),
            Ok(Word::Sighup) => Ok(Some(ResizeSignal::Hup)),
            Ok(Word::Sigusr1) => Ok(Some(ResizeSignal::Usr1)),
            Ok(Word::Sigusr2) => Ok(Some(ResizeSignal::Usr2)),
            Ok(Word::Sigwinch) => Ok(Some(ResizeSignal::Winch)),
            Err(_) => Err(path.refuse(self.to_string(), "SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH or nothing")),
        }
    }
}

impl Wire<Option<TaintEffect>> for i32 {
    fn of(model: &Option<TaintEffect>) -> Self {
        model.map_or(v1::TaintEffect::Unspecified, effect_to_message).into()
    }

    fn read(&self, path: &WirePath<'_>) -> Result<Option<TaintEffect>, FieldRefused> {
        effect_from_message("", *self).map_err(|refused| FieldRefused { field: path.to_string(), ..refused })
    }
}

impl Wire<HealthCheck> for v1::HealthCheck {
    fn of(model: &HealthCheck) -> Self {
        super::job::health_check_to_message(model)
    }

    fn read(&self, _: &WirePath<'_>) -> Result<HealthCheck, FieldRefused> {
        super::job::health_check_from_message(self)
    }
}
