//! Names of enum values in text.

/// Gives an enum without fields a list of its values and their names: `ALL`, `name`, `Display` and
/// `FromStr`, which refuses another name with the given error. The names are those of `serde`.
macro_rules! name_values {
    ($type:ident, $error:ident::$unknown:ident, { $($value:ident: $name:literal,)+ }) => {
        impl $type {
            /// All values.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name in text, as `serde` writes it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            pub(crate) fn list_names() -> String {
                Self::ALL.map(Self::name).join(", ")
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let found = Self::ALL.into_iter().find(|value| value.name() == text);
                found.ok_or_else(|| $error::$unknown(text.to_owned()))
            }
        }
    };
}
