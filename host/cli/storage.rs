//! What storage services take from the environment by their own conventions and `OpenDAL` does not read by itself.
//!
//! Keys of AWS and files of Google need nothing here: `OpenDAL` finds `AWS_ACCESS_KEY_ID`, profiles, web identities,
//! roles of instances and containers, `GOOGLE_APPLICATION_CREDENTIALS` and Azure's identities by itself.

use std::path::PathBuf;

use store::{Location, Service};

use crate::environment::{os, text};

/// Adds to `location` what the environment says and its URL does not.
pub(crate) fn with_conventions(location: Location) -> Location {
    match location.service() {
        None => location,
        Some(Service::S3) => s3(location),
        Some(Service::Gcs) => gcs(location),
        Some(Service::Azblob) => azblob(location),
    }
}

fn s3(location: Location) -> Location {
    let first = |names: &[&str]| names.iter().find_map(|name| text(name));
    let profile = location.option("profile").map(str::to_owned);
    let profile = profile.or_else(|| first(&["AWS_PROFILE"]));
    let of_profile = |profile: &str| {
        let home = || os("HOME").map(|home| PathBuf::from(home).join(".aws/config"));
        let file = os("AWS_CONFIG_FILE").map(PathBuf::from).or_else(home)?;
        region_of_profile(&std::fs::read_to_string(file).ok()?, profile)
    };
    let region = first(&["AWS_REGION", "AWS_DEFAULT_REGION"])
        .or_else(|| of_profile(profile.as_deref().unwrap_or("default")));
    location
        .or_option(
            "endpoint",
            first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
        )
        .or_option("profile", profile)
        .or_option("region", region)
}

/// Returns the region of a profile in the text of an AWS configuration file.
fn region_of_profile(config: &str, profile: &str) -> Option<String> {
    let mut is_ours = false;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']').trim();
            let name = section.strip_prefix("profile ").unwrap_or(section);
            is_ours = name.trim() == profile;
        } else if let (true, Some((name, value))) = (is_ours, line.split_once('='))
            && name.trim() == "region"
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

fn gcs(location: Location) -> Location {
    let Some(emulator) = text("STORAGE_EMULATOR_HOST") else {
        return location;
    };
    let endpoint = if emulator.contains("://") {
        emulator
    } else {
        format!("http://{emulator}")
    };
    // An emulator knows no credentials, and there is nobody to ask for some.
    let on = || Some("true".to_owned());
    location
        .or_option("endpoint", Some(endpoint))
        .or_option("skip_signature", on())
        .or_option("disable_vm_metadata", on())
        .or_option("disable_config_load", on())
}

fn azblob(location: Location) -> Location {
    let first = |names: &[&str]| names.iter().find_map(|name| text(name));
    let says_nothing = ["account_name", "endpoint"]
        .iter()
        .all(|name| location.option(name).is_none());
    if let (true, Some(connection)) = (says_nothing, text("AZURE_STORAGE_CONNECTION_STRING")) {
        return location.or_option("connection_string", Some(connection));
    }
    location
        .or_option(
            "account_name",
            first(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]),
        )
        .or_option(
            "account_key",
            first(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"]),
        )
        .or_option("sas_token", first(&["AZURE_STORAGE_SAS_TOKEN"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_of_a_profile_is_read_from_its_own_section() {
        let config = "[default]\nregion = eu-west-1\n\n[profile far]\noutput=json\nregion=ap-south-1\n[x]\nregion=no\n";
        let region = |profile| region_of_profile(config, profile);
        assert_eq!(region("default").as_deref(), Some("eu-west-1"));
        assert_eq!(region("far").as_deref(), Some("ap-south-1"));
        assert_eq!(region("other"), None);
    }
}
