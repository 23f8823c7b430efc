//! A typed key, its bytes, and ranges as partly filled keys.

use std::marker::PhantomData;
use std::ops::Range;

use foundationdb_tuple::{pack, pack_into, unpack};

use super::{CellSpace, KeyField, KeyKind, Value};
use crate::error::StoreError;

/// A key of one kind, with the type of its value.
pub trait Key: Sized + Clone + std::fmt::Debug + PartialEq + Ord + Send + Sync {
    type Value: Value;
    /// The first field; [`NoField`](super::NoField) if the key has none.
    type First: KeyField;
    type Second: KeyField;
    const KIND: KeyKind;

    /// Appends the fields in their tuple encoding.
    fn fields_pack(&self, bytes: &mut Vec<u8>);

    /// The key of packed fields; the error text says what is wrong with them.
    fn fields_unpack(bytes: &[u8]) -> Result<Self, String>;

    /// The key's bytes in `space`.
    fn encode(&self, space: &CellSpace) -> Vec<u8> {
        let mut bytes = kind_prefix(space, Self::KIND);
        self.fields_pack(&mut bytes);
        bytes
    }

    /// The key of bytes read from `space`.
    fn decode(space: &CellSpace, bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |found: String| StoreError::DamagedKey { kind: Self::KIND, key: bytes.to_vec(), found };
        let fields = bytes
            .strip_prefix(kind_prefix(space, Self::KIND).as_slice())
            .ok_or_else(|| damaged("a key of another kind or cell".to_owned()))?;
        Self::fields_unpack(fields).map_err(damaged)
    }
}

/// All keys of a kind in `space`: first inclusive, last exclusive.
pub fn kind_range(space: &CellSpace, kind: KeyKind) -> Range<Vec<u8>> {
    let begin = kind_prefix(space, kind);
    let mut end = begin.clone();
    end.push(0xff);
    begin..end
}

fn kind_prefix(space: &CellSpace, kind: KeyKind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(space.prefix().len().saturating_add(32));
    bytes.extend_from_slice(space.prefix());
    pack_into(&(u16::from(kind.code()),), &mut bytes);
    bytes
}

/// The kind of a key read from `space`.
pub(super) fn kind_of(space: &CellSpace, key: &[u8]) -> Result<KeyKind, StoreError> {
    let unknown = || StoreError::UnknownKey { key: key.to_vec() };
    let rest = key.strip_prefix(space.prefix()).ok_or_else(unknown)?;
    KeyKind::ALL
        .iter()
        .copied()
        .find(|kind| rest.starts_with(&pack(&(u16::from(kind.code()),))))
        .ok_or_else(unknown)
}

/// A partly filled key: all keys of a kind that begin with its fields.
pub struct Prefix<K> {
    fields: Vec<u8>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Key> Prefix<K> {
    /// All keys of the kind.
    pub fn all() -> Self {
        Self { fields: Vec::new(), kind: PhantomData }
    }

    /// All keys with this first field.
    pub fn of(first: &K::First) -> Self {
        Self { fields: pack(&(first.packed(),)), kind: PhantomData }
    }

    /// All keys with these first two fields.
    pub fn of_two(first: &K::First, second: &K::Second) -> Self {
        Self { fields: pack(&(first.packed(), second.packed())), kind: PhantomData }
    }

    /// The range of the keys in `space`: first inclusive, last exclusive.
    pub fn range(&self, space: &CellSpace) -> Range<Vec<u8>> {
        let mut begin = kind_prefix(space, K::KIND);
        begin.extend_from_slice(&self.fields);
        let mut end = begin.clone();
        end.push(0xff);
        begin..end
    }
}

/// Decodes fields from all of `bytes`.
pub(super) fn fields_from<'a, T: foundationdb_tuple::TupleUnpack<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    unpack(bytes).map_err(|error| error.to_string())
}

/// Declares key types: `Type { field: FieldType, ... } = Kind => ValueType;`.
macro_rules! keys {
    (@first) => { $crate::keys::NoField };
    (@first $first:ty $(, $rest:ty)*) => { $first };
    (@second) => { $crate::keys::NoField };
    (@second $first:ty) => { $crate::keys::NoField };
    (@second $first:ty, $second:ty $(, $rest:ty)*) => { $second };
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? } = $kind:ident => $value:ty;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $crate::keys::Key for $name {
                type Value = $value;
                type First = keys!(@first $($type),*);
                type Second = keys!(@second $($type),*);
                const KIND: $crate::keys::KeyKind = $crate::keys::KeyKind::$kind;

                fn fields_pack(&self, bytes: &mut Vec<u8>) {
                    let fields = ($($crate::keys::KeyField::packed(&self.$field),)*);
                    foundationdb_tuple::pack_into(&fields, bytes);
                }

                fn fields_unpack(bytes: &[u8]) -> Result<Self, String> {
                    let ($($field,)*): ($(<$type as $crate::keys::KeyField>::Packed,)*) =
                        $crate::keys::key::fields_from(bytes)?;
                    Ok(Self {
                        $($field: $crate::keys::KeyField::unpacked($field)
                            .ok_or_else(|| concat!("a bad ", stringify!($field)).to_owned())?,)*
                    })
                }
            }

            #[cfg(test)]
            impl $crate::keys::tests::Sample for $name {
                fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                    use proptest::strategy::{Just, Strategy};
                    (Just(()), $(<$type as $crate::keys::tests::Sample>::strategy(),)*)
                        .prop_map(|((), $($field,)*)| Self { $($field),* })
                        .boxed()
                }
            }
        )*

        /// Any row of a store: its key and its value. For tools that visit whole stores.
        #[derive(Clone, Debug, PartialEq)]
        pub enum StoredRow {
            $($(#[$doc])* $kind($name, Box<$value>),)*
        }

        impl StoredRow {
            /// The row of a key and a value read from `space`.
            pub fn decode(
                space: &$crate::keys::CellSpace,
                key: &[u8],
                value: &[u8],
            ) -> Result<Self, $crate::error::StoreError> {
                use $crate::keys::{Key, KeyKind, key::kind_of, value_decode};
                match kind_of(space, key)? {
                    $(KeyKind::$kind => {
                        let value = value_decode(KeyKind::$kind, key, value)?;
                        Ok(Self::$kind($name::decode(space, key)?, Box::new(value)))
                    })*
                }
            }
        }

        impl StoredRow {
            /// Its kind.
            pub fn kind(&self) -> $crate::keys::KeyKind {
                match self {
                    $(Self::$kind(..) => $crate::keys::KeyKind::$kind,)*
                }
            }

            /// The bytes of its key in `space`, and of its value.
            pub fn encode(
                &self,
                space: &$crate::keys::CellSpace,
            ) -> Result<(Vec<u8>, Vec<u8>), $crate::error::StoreError> {
                use $crate::keys::{Key, KeyKind, value_encode};
                match self {
                    $(Self::$kind(key, value) => {
                        Ok((key.encode(space), value_encode(KeyKind::$kind, value.as_ref())?))
                    })*
                }
            }
        }

        /// Calls `visit` for every key type there is.
        #[cfg(test)]
        pub(crate) fn each_key_type(visitor: &mut impl $crate::keys::tests::KeyVisitor) {
            $(visitor.visit::<$name>(stringify!($name));)*
        }
    };
}

pub(super) use keys;
