//! Hosts and addresses: what is granted, and what only looks as if it were.

use super::*;

fn grants(texts: &[&str]) -> Vec<HttpGrant> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn covered(grant: &str, url: &str) -> bool {
    covers(&grants(&[grant]), &Url::parse(url).unwrap())
}

#[test]
fn a_grant_is_a_scheme_a_host_and_a_port() {
    let cases = [
        (
            "https://hooks.example.com",
            "https://hooks.example.com/a?b",
            true,
        ),
        ("hooks.example.com", "https://HOOKS.example.com:443/", true),
        ("hooks.example.com/", "https://hooks.example.com", true),
        ("hooks.example.com", "http://hooks.example.com/", false),
        (
            "hooks.example.com",
            "https://hooks.example.com:8443/",
            false,
        ),
        ("hooks.example.com", "https://a.hooks.example.com/", false),
        (
            "hooks.example.com",
            "https://hooks.example.com@evil.example/",
            false,
        ),
        (
            "hooks.example.com",
            "https://hooks.example.com.evil.example/",
            false,
        ),
        (
            "*.corp.example:8443",
            "https://a.b.corp.example:8443/",
            true,
        ),
        ("*.corp.example:8443", "https://corp.example:8443/", false),
        (
            "*.corp.example:8443",
            "https://evilcorp.example:8443/",
            false,
        ),
        ("http://127.0.0.1:9000", "http://2130706433:9000/", true), // the same address, otherwise written
        (
            "http://127.0.0.1:9000",
            "http://[::ffff:127.0.0.1]:9000/",
            true,
        ),
        ("http://127.0.0.1:9000", "http://localhost:9000/", false),
        ("http://[::1]:9000", "http://[0:0::1]:9000/", true),
    ];
    for (grant, url, expected) in cases {
        assert_eq!(covered(grant, url), expected, "{grant} {url}");
    }
}

#[test]
fn what_is_no_host_is_refused() {
    for text in [
        "",
        "*",
        "*.",
        "https://",
        "ftp://a.example",
        "a.example/path",
        "https://a.example?x",
        "user@a.example",
        "a.*.example",
        "*.10.0.0.1",
        "a.example:99999",
        "a b",
        "{secret:X}.example",
    ] {
        assert!(text.parse::<HttpGrant>().is_err(), "{text}");
    }
    let error = "a.example/hook".parse::<HttpGrant>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`a.example/hook` is no host; write \"https://hooks.example.com\", \"*.corp.example:8443\" or \
         \"http://127.0.0.1:9000\", without a path"
    );
}

/// Addresses that a name may not lead to by itself.
const INNER: [&str; 21] = [
    "127.0.0.1",
    "127.9.9.9",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "0.0.0.0",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.0.192",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "::127.0.0.1",
];

#[test]
fn a_name_leads_to_the_inside_only_where_that_very_address_is_granted() {
    let by_name = grants(&[
        "https://hooks.example.com",
        "*.example.com",
        "http://localhost",
    ]);
    for text in INNER {
        let address: IpAddr = text.parse().unwrap();
        assert!(
            !may_lead_to(&by_name, "hooks.example.com", address),
            "{text}"
        );
    }
    for text in [
        "93.184.216.34",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "64:ff9b::808:808",
    ] {
        let address: IpAddr = text.parse().unwrap();
        assert!(
            may_lead_to(&by_name, "hooks.example.com", address),
            "{text}"
        );
    }
}

#[test]
fn an_address_of_the_inside_is_reached_where_it_is_granted_itself() {
    let by_name = grants(&["https://hooks.example.com", "http://localhost"]);
    let loopback: IpAddr = "127.0.0.1".parse().unwrap();
    assert!(may_lead_to(&by_name, "localhost", loopback));
    assert!(!may_lead_to(
        &grants(&["https://a.example"]),
        "localhost",
        loopback
    ));
    let private: IpAddr = "10.1.2.3".parse().unwrap();
    assert!(!may_lead_to(&by_name, "localhost", private));
    let both = grants(&["https://alerts.corp.example", "https://10.1.2.3"]);
    assert!(may_lead_to(&both, "alerts.corp.example", private));
    assert!(!may_lead_to(
        &both,
        "alerts.corp.example",
        "10.1.2.4".parse().unwrap()
    ));
}
