use super::*;

#[test]
fn the_rendered_default_is_the_default() {
    let text = Config::default().render();
    assert_eq!(Config::load(&text, []), Ok(Config::default()));
    assert!(text.contains("value_bytes_max = \"16 MiB\""), "{text}");
    assert!(text.contains("# Longest value in bytes that"), "{text}");
    for part in Config::SECTIONS {
        assert!(text.contains(&format!("\n[{}]\n", part.section)));
    }
}

#[test]
fn settings_win_over_the_file_and_later_ones_over_earlier() {
    let file = "[limits]\nconnections_max = 5\n[cluster]\ndata = \"a\"";
    let settings = [
        ("limits.connections_max", "6"),
        ("limits.connections_max", "7"),
        ("cluster.join", "n1:7379, n2:7379"),
        ("durable.mode", "memory"),
        ("storage.cache_bytes", "1 GiB"),
    ];
    let config = Config::load(file, settings).expect("valid");
    assert_eq!(config.limits.connections_max, 7);
    assert_eq!(config.cluster.data, "a");
    assert_eq!(config.cluster.join, ["n1:7379", "n2:7379"]);
    assert_eq!(config.durable.mode, Durability::Memory);
    assert_eq!(config.storage.cache_bytes, ByteCount::mib(1024));
}

#[test]
fn the_environment_names_fields() {
    let variables = [
        ("QUORATE_LIMITS__IDLE_MS", "9"),
        ("QUORATE_DATA", "belongs to a flag"),
        ("PATH", "/bin"),
        ("QUORATE_LISTEN__PEER", "h:1"),
    ];
    let settings = Config::environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(
        settings,
        [("limits.idle_ms".to_owned(), "9".to_owned()), ("listen.peer".to_owned(), "h:1".to_owned())]
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let file = r#"
        [limits]
        connections_max = "many"
        idle = 5
        pipeline_max = 0
        [listen]
        peer = "nowhere"
        admin = "127.0.0.1:99999"
        [timing]
        election_ms = 140
        [colour]
        red = 1
        [peers]
        queue_bytes_max = "3 apples"
    "#;
    let error = Config::load(file, [("limits.wrong", "1"), ("plain", "1")]).expect_err("invalid");
    let text = error.to_string();
    for expected in [
        "limits.connections_max = \"many\"",
        "unknown field limits.idle;",
        "limits.pipeline_max = 0",
        "listen.peer = \"nowhere\"",
        "listen.admin = \"127.0.0.1:99999\"",
        "timing.election_ms = 140",
        "timing.lease_ms = 200",
        "unknown section [colour]",
        "`3 apples` is not a number of bytes",
        "`limits.wrong` is not a setting",
        "`plain` is not a setting",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    assert_eq!(error.complaints.len(), 11, "{text}");
}

#[test]
fn not_toml_is_refused() {
    assert!(Config::load("[limits", []).expect_err("invalid").to_string().contains("not TOML"));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let wrong: [&[(&str, &str)]; 12] = [
        &[("limits.value_bytes_max", "33 MiB"), ("limits.request_bytes_max", "40 MiB")],
        &[("timing.lease_ms", "500")],
        &[("limits.value_bytes_max", "64 MiB")],
        &[("peers.frame_bytes_max", "32 MiB")],
        &[("limits.output_hard_bytes", "10")],
        &[("listen.client", "127.0.0.1:7379")],
        &[("listen.client", "0.0.0.0:6379")],
        &[("cluster.data", "")],
        &[("cluster.join", "h:0")],
        &[("listen.peer", "::1:7379")],
        &[("storage.memory_bytes_max", "0")],
        &[("processors.awake", "sometimes")],
    ];
    for settings in wrong {
        assert!(Config::load("", settings.iter().copied()).is_err(), "{settings:?}");
    }
    let right = [("listen.client", "0.0.0.0:6379"), ("advertise.client", "db1:6379")];
    assert!(Config::load("", right).is_ok());
}

#[test]
fn an_id_that_looks_like_a_number_is_text() {
    for id in ["2677299639855806", "00000000000001e5", "720bfb72c4f71299"] {
        match Config::load("", [("cluster.id", id)]) {
            Ok(config) => assert_eq!(config.cluster.id, id),
            // Without members an id is refused, but it was read as what it is.
            Err(error) => assert!(!error.to_string().contains("invalid type"), "{error}"),
        }
    }
}

/// What is founded with these settings and a list of so many first members.
fn founded(settings: &[(&str, &str)], listed: usize) -> (Topology, u16, u8) {
    let list: Vec<String> = (1..=listed).map(|id| format!("{id}@h{id}:1")).collect();
    let mut all = settings.to_vec();
    let list = list.join(",");
    if listed > 0 {
        all.extend([("cluster.members", &*list), ("cluster.node", "1")]);
    }
    let config = Config::load("", all).expect("valid");
    let shape = config.shape();
    assert_eq!(shape, config.shape_of(listed));
    (shape.topology, shape.buckets, shape.copies)
}

#[test]
fn one_node_alone_and_six_that_are_listed_found_a_ring_if_nothing_is_said() {
    let (ring, view) = ((Topology::Ring, 32, 3), (Topology::View, 1, 0));
    for (listed, expected) in [(0, ring), (1, view), (2, view), (3, view), (5, view), (6, ring), (30, ring)] {
        assert_eq!(founded(&[], listed), expected, "{listed} listed");
        assert_eq!(founded(&[("cluster.topology", "auto")], listed), expected, "{listed} listed");
        assert_eq!(founded(&[("cluster.topology", "view")], listed), view, "{listed} listed");
        assert_eq!(founded(&[("cluster.topology", "ring")], listed), ring, "{listed} listed");
        // Who says how many buckets or copies there are to be says what was a view before there were rings.
        assert_eq!(founded(&[("cluster.buckets", "6")], listed), (Topology::View, 6, 0));
        assert_eq!(founded(&[("cluster.copies", "3")], listed), (Topology::View, 1, 3));
        let both = [("cluster.topology", "ring"), ("cluster.buckets", "8"), ("cluster.copies", "5")];
        assert_eq!(founded(&both, listed), (Topology::Ring, 8, 5));
    }
}

#[test]
fn who_joins_founds_nothing_and_asks_for_what_is_said_only() {
    let joining =
        |more: &[(&str, &str)]| Config::load("", [&[("cluster.join", "h:1")], more].concat()).expect("valid");
    for topology in ["auto", "view", "ring"] {
        assert_eq!(joining(&[("cluster.topology", topology)]).shape(), Shape::default());
    }
    let asked = |config: Config| config.asked_shape();
    assert_eq!(asked(joining(&[])), Shape::default());
    assert_eq!(
        asked(Config::default()),
        Shape::default(),
        "also of a node that founded alone and starts again"
    );
    assert_eq!(asked(joining(&[("cluster.topology", "view")])), Shape::default());
    let ring = Shape { topology: Topology::Ring, ..Shape::default() };
    assert_eq!(asked(joining(&[("cluster.topology", "ring")])), ring);
    assert_eq!(asked(joining(&[("cluster.buckets", "4")])), Shape { buckets: 4, ..Shape::default() });
}

#[test]
fn a_topology_has_the_name_by_which_it_is_set() {
    for topology in [AskedTopology::Auto, AskedTopology::View, AskedTopology::Ring] {
        let config = Config::load("", [("cluster.topology", topology.name())]).expect("valid");
        assert_eq!(config.cluster.topology, topology);
    }
    let refused =
        Config::load("", [("cluster.topology", "rings")]).expect_err("no such topology").to_string();
    assert!(refused.contains("cluster.topology = \"rings\""), "{refused}");
}
