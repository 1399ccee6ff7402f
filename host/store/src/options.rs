//! The options in the query of a store's URL: which there are, and which of them are secrets.

use std::collections::BTreeMap;

use crate::Service;

/// An option of a storage service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionName {
    pub(crate) name: &'static str,
    /// Never shown, and never kept beside a spool.
    pub(crate) is_secret: bool,
    is_switch: bool,
}

const fn plain(name: &'static str) -> OptionName {
    OptionName {
        name,
        is_secret: false,
        is_switch: false,
    }
}

const fn secret(name: &'static str) -> OptionName {
    OptionName {
        name,
        is_secret: true,
        is_switch: false,
    }
}

const fn switch(name: &'static str) -> OptionName {
    OptionName {
        name,
        is_secret: false,
        is_switch: true,
    }
}

const S3: [OptionName; 19] = [
    secret("access_key_id"),
    plain("checksum_algorithm"),
    plain("default_acl"),
    plain("default_storage_class"),
    switch("disable_config_load"),
    switch("disable_ec2_metadata"),
    switch("enable_request_payer"),
    switch("enable_virtual_host_style"),
    plain("endpoint"),
    secret("external_id"),
    plain("profile"),
    plain("region"),
    plain("role_arn"),
    plain("role_session_name"),
    secret("secret_access_key"),
    plain("server_side_encryption"),
    plain("server_side_encryption_aws_kms_key_id"),
    secret("session_token"),
    switch("skip_signature"),
];

const GCS: [OptionName; 10] = [
    secret("credential"),
    plain("credential_path"),
    plain("default_storage_class"),
    switch("disable_config_load"),
    switch("disable_vm_metadata"),
    plain("endpoint"),
    plain("predefined_acl"),
    plain("service_account"),
    switch("skip_signature"),
    secret("token"),
];

const AZBLOB: [OptionName; 6] = [
    secret("account_key"),
    plain("account_name"),
    secret("connection_string"),
    plain("endpoint"),
    secret("sas_token"),
    switch("skip_signature"),
];

impl OptionName {
    /// Returns the options of `service`, sorted by name.
    pub(crate) fn all(service: Service) -> &'static [Self] {
        match service {
            Service::S3 => &S3,
            Service::Gcs => &GCS,
            Service::Azblob => &AZBLOB,
        }
    }

    pub(crate) fn of(service: Service, name: &str) -> Option<Self> {
        let all = Self::all(service).iter();
        all.copied().find(|option| option.name == name)
    }
}

/// Reads a query: `name=value&name=value`. A `+` stands for itself, because keys in base64 contain it.
pub(crate) fn options(
    service: Service,
    query: &str,
) -> Result<BTreeMap<&'static str, String>, String> {
    let mut options = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, "true"));
        let Some(option) = OptionName::of(service, name) else {
            return Err(unknown(service, name));
        };
        let value = percent_decoded(value);
        if option.is_switch && !["true", "false"].contains(&value.as_str()) {
            return Err(format!("`{name}` is true or false"));
        }
        if value.is_empty() {
            return Err(format!("`{name}` has no value"));
        }
        options.insert(option.name, value);
    }
    Ok(options)
}

fn unknown(service: Service, name: &str) -> String {
    let names: Vec<&str> = OptionName::all(service)
        .iter()
        .map(|option| option.name)
        .collect();
    let (last, others) = names.split_last().expect("every service has options");
    format!(
        "{}:// has no option `{name}`; it takes {} and {last}",
        service.scheme(),
        others.join(", ")
    )
}

/// Replaces `%20` and the like; what is no such escape stands for itself.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_replaced_and_all_else_stands_for_itself() {
        assert_eq!(percent_decoded("a%2Fb%20c+d=%zz%4"), "a/b c+d=%zz%4");
        assert_eq!(percent_decoded("%c3%a9"), "\u{e9}");
    }

    #[test]
    fn options_are_sorted_so_that_a_refusal_lists_them_in_order() {
        for service in [Service::S3, Service::Gcs, Service::Azblob] {
            assert!(OptionName::all(service).is_sorted_by_key(|option| option.name));
        }
    }
}
