//! The types of key fields. Their tuple encoding keeps their order.

use borough_kv::Versionstamp;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::{FederatedJobId, GangId, JobId, Name, NodeId, RequestId};
use foundationdb_tuple as tuple;

/// A type of key fields. Its packed form sorts as it does.
pub trait KeyField: Sized {
    type Packed: tuple::TuplePack + for<'bytes> tuple::TupleUnpack<'bytes>;

    /// Converts the field to its tuple element.
    fn packed(&self) -> Self::Packed;

    /// The field of a tuple element; `None` if the element is not one.
    fn unpacked(packed: Self::Packed) -> Option<Self>;
}

/// Marks that a key has no further field. It has no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoField {}

impl KeyField for NoField {
    type Packed = u32;

    fn packed(&self) -> u32 {
        match *self {}
    }

    fn unpacked(_: u32) -> Option<Self> {
        None
    }
}

macro_rules! plain_fields {
    ($($type:ty),*) => {$(
        impl KeyField for $type {
            type Packed = Self;

            fn packed(&self) -> Self {
                self.clone()
            }

            fn unpacked(packed: Self) -> Option<Self> {
                Some(packed)
            }
        }
    )*};
}

macro_rules! numbered_fields {
    ($($type:ident: $packed:ty),*) => {$(
        impl KeyField for $type {
            type Packed = $packed;

            fn packed(&self) -> $packed {
                self.0
            }

            fn unpacked(packed: $packed) -> Option<Self> {
                Some(Self(packed))
            }
        }
    )*};
}

plain_fields!(u16, u32, u64, i64, String);
numbered_fields!(JobId: u64, NodeId: u64, GangId: u64, FederatedJobId: u64, RequestId: u128);

impl KeyField for Name {
    type Packed = String;

    fn packed(&self) -> String {
        self.as_str().to_owned()
    }

    fn unpacked(packed: String) -> Option<Self> {
        Self::new(packed).ok()
    }
}

/// A user is packed as the plain name. A group has the prefix `~`, which sorts after every user.
impl KeyField for AccessSubject {
    type Packed = String;

    fn packed(&self) -> String {
        match self {
            Self::User(name) => name.as_str().to_owned(),
            Self::Group(name) => format!("~{name}"),
        }
    }

    fn unpacked(packed: String) -> Option<Self> {
        match packed.strip_prefix('~') {
            Some(name) => Name::new(name).ok().map(Self::Group),
            None => Name::new(packed).ok().map(Self::User),
        }
    }
}

impl KeyField for Band {
    type Packed = u16;

    fn packed(&self) -> u16 {
        match self {
            Self::BestEffort => 0,
            Self::Batch => 1,
            Self::Production => 2,
            Self::Monitoring => 3,
        }
    }

    fn unpacked(packed: u16) -> Option<Self> {
        match packed {
            0 => Some(Self::BestEffort),
            1 => Some(Self::Batch),
            2 => Some(Self::Production),
            3 => Some(Self::Monitoring),
            _ => None,
        }
    }
}

/// A stamp of all ones is packed as the placeholder that the commit replaces.
impl KeyField for Versionstamp {
    type Packed = tuple::Versionstamp;

    fn packed(&self) -> tuple::Versionstamp {
        tuple::Versionstamp::complete(self.0, 0)
    }

    fn unpacked(packed: tuple::Versionstamp) -> Option<Self> {
        Self::from_slice(packed.transaction_version()).filter(|_| packed.user_version() == 0)
    }
}
