//! From file, environment and flags to a [`Config`], and back to a commented file.

use std::fmt;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{ByteCount, Config};

/// Variables of the environment that set a field: this, the section, two underscores, the field, all in capitals
/// (`QUORATE_LIMITS__CONNECTIONS_MAX`).
pub const ENVIRONMENT_PREFIX: &str = "QUORATE_";

/// One section of the file and what is said about it.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// Name of the table.
    pub section: &'static str,
    /// What it is about.
    pub about: &'static [&'static str],
    /// Its fields with their explanations.
    pub fields: &'static [(&'static str, &'static [&'static str])],
}

/// Everything that is wrong with a configuration, all of it at once. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// One sentence each.
    pub complaints: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} mistake(s):", self.complaints.len())?;
        self.complaints.iter().try_for_each(|complaint| write!(f, "\n  - {complaint}"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file's text, then lets `settings` (pairs such as `limits.connections_max` and `5000`, later ones
    /// stronger) win over it, then validates.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that could be found at once.
    pub fn load<'a>(
        text: &str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Config, ConfigError> {
        let mut table: Table =
            text.parse().map_err(|error| ConfigError { complaints: vec![format!("not TOML: {error}")] })?;
        let mut complaints = Vec::new();
        for (path, value) in settings {
            if let Err(complaint) = set(&mut table, path, value) {
                complaints.push(complaint);
            }
        }
        unknown_names(&table, &mut complaints);
        let read = deserialize_by_section(table, &mut complaints);
        complaints.extend(read.complaints());
        if complaints.is_empty() { Ok(read) } else { Err(ConfigError { complaints }) }
    }

    /// The settings among the variables of an environment, to be handed to [`Config::load`]. Other variables with
    /// the prefix are left alone: they belong to the program's flags.
    pub fn environment(variables: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
        let names: Vec<(String, String)> = Config::SECTIONS
            .iter()
            .flat_map(|part| part.fields.iter().map(|(field, _)| (part.section, *field)))
            .map(|(section, field)| {
                let name = format!("{ENVIRONMENT_PREFIX}{section}__{field}").to_ascii_uppercase();
                (name, format!("{section}.{field}"))
            })
            .collect();
        let path = |name: &str| names.iter().find(|(known, _)| known == name).map(|(_, path)| path.clone());
        variables.into_iter().filter_map(|(name, value)| Some((path(&name)?, value))).collect()
    }

    /// This configuration as a file in which every field is explained.
    pub fn render(&self) -> String {
        let values = Value::try_from(self).expect("a configuration is a table");
        let mut text = String::from("# Configuration of one Quorate node. Every field shows its value.\n");
        for part in Config::SECTIONS {
            text.push('\n');
            part.about.iter().for_each(|line| writeln!(text, "#{line}").expect("writing to a string"));
            writeln!(text, "[{}]", part.section).expect("writing to a string");
            for (field, help) in part.fields {
                help.iter().for_each(|line| writeln!(text, "#{line}").expect("writing to a string"));
                let value = &values[part.section][*field];
                writeln!(text, "{field} = {value}").expect("writing to a string");
            }
        }
        text
    }
}

/// Sets one field; a value that is not TOML by itself is a string, so that quotes are not needed.
fn set(table: &mut Table, path: &str, text: &str) -> Result<(), String> {
    let Some((section, field)) = path.split_once('.') else {
        return Err(format!(
            "`{path}` is not a setting: write section.field, such as limits.connections_max"
        ));
    };
    let known = Config::SECTIONS.iter().find(|part| part.section == section);
    if !known.is_some_and(|part| part.fields.iter().any(|(name, _)| *name == field)) {
        return Err(format!("`{path}` is not a setting; `quorate config default` lists all"));
    }
    let is_list = section == "cluster" && matches!(field, "join" | "members");
    let value = if is_list && !text.trim_start().starts_with('[') {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        Value::Array(items.map(|item| Value::String(item.into())).collect())
    } else if is_text(section, field) && !text.starts_with(['"', '\'']) {
        Value::String(text.into())
    } else {
        let parsed = format!("v = {text}").parse::<Table>().ok().and_then(|mut one| one.remove("v"));
        parsed.unwrap_or_else(|| Value::String(text.into()))
    };
    let entry = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    match entry.as_table_mut() {
        Some(inner) => inner.insert(field.into(), value),
        None => return Err(format!("`{section}` must be a section: write [{section}]")),
    };
    Ok(())
}

/// Whether a field is text whatever it looks like: a cluster's id may happen to be all digits.
fn is_text(section: &str, field: &str) -> bool {
    matches!(section, "listen" | "advertise" | "log")
        || (section == "cluster" && matches!(field, "id" | "data"))
}

/// Names all unknown sections and fields, not only the first.
fn unknown_names(table: &Table, complaints: &mut Vec<String>) {
    for (section, content) in table {
        let Some(part) = Config::SECTIONS.iter().find(|part| part.section == section) else {
            let known: Vec<_> = Config::SECTIONS.iter().map(|part| part.section).collect();
            complaints.push(format!("unknown section [{section}]; there are {}", known.join(", ")));
            continue;
        };
        let Some(content) = content.as_table() else { continue };
        for field in content.keys().filter(|field| !part.fields.iter().any(|(name, _)| name == field)) {
            let known: Vec<_> = part.fields.iter().map(|(name, _)| *name).collect();
            complaints.push(format!("unknown field {section}.{field}; there are {}", known.join(", ")));
        }
    }
}

/// Reads field by field, so that one wrong type does not hide the next; wrong ones keep their default.
fn deserialize_by_section(table: Table, complaints: &mut Vec<String>) -> Config {
    let mut good = Table::new();
    for (section, content) in table {
        let Some(part) = Config::SECTIONS.iter().find(|part| part.section == section) else { continue };
        let Value::Table(content) = content else {
            complaints.push(format!("`{section}` must be a section: write [{section}]"));
            continue;
        };
        let mut kept = Table::new();
        for (field, value) in
            content.into_iter().filter(|(name, _)| part.fields.iter().any(|(f, _)| f == name))
        {
            let mut alone = Table::new();
            alone.insert(section.clone(), Value::Table(Table::from_iter([(field.clone(), value.clone())])));
            match Config::deserialize(Value::Table(alone)) {
                Ok(_) => {
                    kept.insert(field, value);
                }
                Err(error) => {
                    let reason = error.message().lines().next().unwrap_or_default().to_owned();
                    complaints.push(format!("{section}.{field} = {value}: {reason}"));
                }
            }
        }
        good.insert(section, Value::Table(kept));
    }
    Config::deserialize(Value::Table(good)).expect("each field was read by itself before")
}

/// A number of bytes as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of bytes or a string such as \"64 MiB\"")]
pub(super) enum BytesText {
    /// Plain.
    Number(u64),
    /// With a unit.
    Text(String),
}

impl TryFrom<BytesText> for ByteCount {
    type Error = String;

    fn try_from(text: BytesText) -> Result<Self, String> {
        let text = match text {
            BytesText::Number(bytes) => return Ok(ByteCount(bytes)),
            BytesText::Text(text) => text,
        };
        let digits = text.trim().bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.trim().split_at(digits);
        let unit = match unit.trim() {
            "" | "B" => Some(1_u64),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let bytes = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        bytes.map(ByteCount).ok_or_else(|| {
            format!("`{text}` is not a number of bytes: write 1048576 or \"1 MiB\" (B, KiB, MiB, GiB)")
        })
    }
}

impl From<ByteCount> for BytesText {
    fn from(count: ByteCount) -> Self {
        BytesText::Text(count.to_string())
    }
}
