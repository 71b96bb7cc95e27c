//! One source for a field's type, default and explanation.

/// A table of the file: a struct whose fields carry their default and, from their doc comment, their explanation.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $( $(#[doc = $help:literal])+ $field:ident : $type:ty = $default:expr, )+
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )+ }
            }
        }

        impl $name {
            /// What the section is about, and its fields with their explanations.
            const ABOUT: &'static [&'static str] = &[$($about),*];
            const FIELDS: &'static [(&'static str, &'static [&'static str])] =
                &[ $( (stringify!($field), &[$($help),+]) ),+ ];
        }
    };
}

/// The whole file.
macro_rules! document {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident { $( $section:ident : $type:ident, )+ }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                #[doc = concat!("See [`", stringify!($type), "`].")]
                pub $section: $type,
            )+
        }

        impl $name {
            /// Every section: its name, what it is about, and its fields.
            pub(crate) const SECTIONS: &'static [Fields] = &[
                $( Fields { section: stringify!($section), about: $type::ABOUT, fields: $type::FIELDS } ),+
            ];
        }
    };
}

pub(super) use {document, section};
