"""Guards of what an error of an API server means, of the pauses after it, and of how a server is found."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_STATUSES = "tests/unit/kube/test_statuses.py"
_FAILURES = "tests/unit/kube/test_failures.py"
_LIMITS = "tests/unit/kube/test_limits.py"
_BACKOFF = "tests/unit/kube/test_backoff.py"
_CONFIG = "tests/unit/kube/test_config.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a 404 of a path is no absence of an object",
        "kube.statuses:_class_of",
        ' and reason == "NotFound" and details.get("name")',
        "",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[404 that names nothing]",
    ),
    Guard(
        "a 404 that names no object is no absence of one",
        "kube.statuses:_class_of",
        ' and details.get("name")',
        "",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[404 that names nothing]",
    ),
    Guard(
        "a name that is taken is no lost race",
        "kube.statuses:_class_of",
        'if status_code == 409 and reason == "AlreadyExists":',
        "if False:",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[409 with AlreadyExists]",
    ),
    Guard(
        "a namespace that is terminating is no missing permission",
        "kube.statuses:_class_of",
        "if status_code == 403 and (",
        "if False and (",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[403 in a terminating namespace, by cause]",
    ),
    Guard(
        "a version from before a restore has expired",
        "kube.statuses:_class_of",
        'if "ResourceVersionTooLarge" in causes:',
        "if False:",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[504 for a version from before a restore]",
    ),
    Guard(
        "a failing server that asks for a pause gets it",
        "kube.statuses:_class_of",
        "Throttled if kind is ServerError and retry_after is not None else kind",
        "kind",
        f"{_STATUSES}::test_the_class_follows_status_and_reason[503 that says when to come back]",
    ),
    Guard(
        "an error inside a watch has the class that its Status says",
        "kube.statuses:error_from_event",
        "if not isinstance(code, int) or not 400 <= code <= 599:",
        "if True:",
        (f"{_STATUSES}::test_an_error_line_in_a_watch_becomes_the_error_its_status_describes[gone by code alone]"),
    ),
    Guard(
        "an error inside a watch is one whatever its code says",
        "kube.statuses:error_from_event",
        " or not 400 <= code <= 599",
        "",
        (
            f"{_STATUSES}::test_an_error_line_in_a_watch_becomes_the_error_its_status_describes"
            "[a failure with a success code]"
        ),
    ),
    Guard(
        "an object that a server quotes is in no log",
        "kube.statuses:_message",
        "_LONG_VALUE.sub('\"…\"', message)",
        "message",
        f"{_STATUSES}::test_a_refused_object_that_the_server_quotes_is_left_out",
    ),
    Guard(
        "no message of a server is endless",
        "kube.statuses:_message",
        "[:MESSAGE_LIMIT]",
        "",
        f"{_STATUSES}::test_a_long_message_is_cut",
    ),
    Guard(
        "no Status silences a client for longer than an hour",
        "kube.statuses:_seconds",
        "min(value, RETRY_AFTER_LIMIT)",
        "value",
        f"{_STATUSES}::test_the_pause_is_kept_whatever_the_class[403-absurd is capped]",
    ),
    Guard(
        "what is published of an error does not vary with the server's text",
        "kube.statuses:error_from_status",
        " and _REASON.fullmatch(reason)",
        "",
        f"{_STATUSES}::test_a_reason_that_is_no_reason_stays_out_of_the_summary",
    ),
    Guard(
        "every error of the HTTP library is translated",
        "kube.failures:translated",
        "except VENDOR_ERRORS as error:",
        "except OSError as error:",
        (
            f"{_FAILURES}::test_every_class_of_the_vendor_is_translated_and_chained"
            "[urllib3.exceptions.BodyNotHttplibCompatible]"
        ),
    ),
    Guard(
        "only a connection that was gone before the answer is stale",
        "kube.failures:is_stale_connection",
        "isinstance(inner, ConnectionResetError | BrokenPipeError | ConnectionAbortedError)",
        "inner is not None",
        f"{_FAILURES}::test_only_a_connection_that_was_gone_before_the_answer_is_stale[body cut off]",
    ),
    Guard(
        "an error that nobody has heard of may pass",
        "kube.failures:_classify",
        'return Unreachable, "Failed"',
        'return Refused, "Failed"',
        f"{_FAILURES}::test_a_class_that_nobody_has_heard_of_is_retryable",
    ),
    Guard(
        "what is wrapped decides what an error means",
        "kube.failures:_classify",
        "if inner is not None:",
        "if False:",
        f"{_FAILURES}::test_what_went_wrong_decides_the_class[wrapped timeout]",
    ),
    Guard(
        "an idle bucket fills up to the burst only",
        "kube.limits:TokenBucket.acquire",
        "min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)",
        "self._tokens + max(0.0, now - self._at) * self._rate",
        f"{_LIMITS}::test_an_idle_bucket_fills_up_to_the_burst_only",
    ),
    Guard(
        "a clock that is set back takes no calls away",
        "kube.limits:TokenBucket.acquire",
        "max(0.0, now - self._at)",
        "(now - self._at)",
        f"{_LIMITS}::test_a_clock_that_jumps_back_gives_no_tokens_and_takes_none",
    ),
    Guard(
        "callers wait until their own turn",
        "kube.limits:TokenBucket.acquire",
        "if wait > 0:",
        "if False:",
        f"{_LIMITS}::test_a_burst_passes_at_once_and_no_more",
    ),
    Guard(
        "a limit that lets nothing pass is refused",
        "kube.limits:RateLimits.__post_init__",
        "if not getattr(self, field.name) > 0:",
        "if False:",
        f"{_LIMITS}::test_a_limit_that_lets_nothing_pass_is_refused[no calls]",
    ),
    Guard(
        "no pause undercuts what a server has asked for",
        "kube.backoff:Backoff.delay",
        "spread if asked is None else max(spread, asked + draw * self.first)",
        "spread",
        f"{_BACKOFF}::test_the_delay_after_a_failure[the server asks for longer]",
    ),
    Guard(
        "no pause grows without an end",
        "kube.backoff:Backoff.delay",
        "min(self.limit, self.first * 2.0 ** min(failures - 1, 32))",
        "self.first * 2.0 ** min(failures - 1, 32)",
        f"{_BACKOFF}::test_the_delay_after_a_failure[the limit]",
    ),
    Guard(
        "clients of one failed server come back apart",
        "kube.backoff:Backoff.delay",
        "step * (1 + draw) / 2",
        "step",
        f"{_BACKOFF}::test_the_delay_after_a_failure[the first failure, no jitter]",
    ),
    Guard(
        "an explicit kubeconfig comes before the service account",
        "kube.config:load_connection",
        "not kubeconfig and not context and ",
        "",
        f"{_CONFIG}::test_an_explicit_file_comes_before_the_service_account_and_the_environment",
    ),
    Guard(
        "a pod without a token goes by its kubeconfig",
        "kube.config:_in_cluster",
        ' and (service_account / "token").exists()',
        "",
        f"{_CONFIG}::test_a_pod_without_a_token_goes_by_its_kubeconfig",
    ),
    Guard(
        "credentials that cannot be used are not nobody's",
        "kube.config:_from_kubeconfig",
        "if user and not configuration.cert_file and connection.authorization() is None:",
        "if False:",
        (
            f"{_CONFIG}::test_credentials_that_cannot_be_used_are_refused_instead_of_being_nobody"
            "[an exec plugin that fails]"
        ),
    ),
    Guard(
        "a user without settings is meant to be anonymous",
        "kube.config:_from_kubeconfig",
        "if user and ",
        "if ",
        f"{_CONFIG}::test_an_explicit_file_comes_before_the_service_account_and_the_environment",
    ),
    Guard(
        "no proxy is used where NO_PROXY exempts the server",
        "kube.config:_connection",
        'if proxy and should_bypass_proxies(server, configuration.no_proxy or ""):',
        "if False:",
        f"{_CONFIG}::test_no_proxy_is_respected[bypassed by name]",
    ),
    Guard(
        "a server that is no URL is refused",
        "kube.config:_connection",
        '_refuse_bad_url(source, "server", server)',
        "pass",
        f"{_CONFIG}::test_a_file_that_cannot_be_used_is_named_in_one_line[a server without a scheme]",
    ),
    Guard(
        "a proxy that is no URL is refused",
        "kube.config:_connection",
        '_refuse_bad_url(source, "proxy", proxy)',
        "pass",
        f"{_CONFIG}::test_a_file_that_cannot_be_used_is_named_in_one_line[a proxy that is none]",
    ),
    Guard(
        "a token that no header can hold is not sent",
        "kube.config:_Credentials.authorization",
        "if not _HEADER_VALUE.fullmatch(values[0]):",
        "if False:",
        (
            f"{_CONFIG}::test_credentials_that_cannot_be_used_are_refused_instead_of_being_nobody"
            "[a token with a line break in the middle]"
        ),
    ),
    Guard(
        "whatever a kubeconfig holds, its refusal is one line",
        "kube.config:_readable",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        (
            f"{_CONFIG}::test_credentials_that_cannot_be_used_are_refused_instead_of_being_nobody"
            "[a user that is a string]"
        ),
    ),
    Guard(
        "a kubeconfig that is missing is not taken for an empty one",
        "kube.config:_refuse_hostile_files",
        "if not files:",
        "if False:",
        f"{_CONFIG}::test_a_missing_file_is_named_with_what_to_do",
    ),
    Guard(
        "a huge file is not read",
        "kube.config:_refuse_hostile_files",
        "if path.stat().st_size > FILE_LIMIT:",
        "if False:",
        f"{_CONFIG}::test_a_huge_file_is_not_read",
    ),
    Guard(
        "a few aliases do not become gigabytes",
        "kube.config:_refuse_bombs",
        "if isinstance(event, yaml.AliasEvent):",
        "if False:",
        (f"{_CONFIG}::test_a_file_is_refused_for_the_right_reason[an alias in a file that is fine otherwise]"),
    ),
    Guard(
        "no nesting costs quadratic time",
        "kube.config:_refuse_bombs",
        "if depth > DEPTH_LIMIT:",
        "if False:",
        f"{_CONFIG}::test_a_file_is_refused_for_the_right_reason[nesting in a file that is fine otherwise]",
    ),
    Guard(
        "a cluster without a server is not localhost",
        "kube.config:_refuse_unsupported",
        'if not isinstance(cluster.get("server"), str):',
        "if False:",
        f"{_CONFIG}::test_a_file_is_refused_for_the_right_reason[a cluster without a server]",
    ),
    Guard(
        "verification is not switched off by a text",
        "kube.config:_refuse_unsupported",
        'if not isinstance(cluster.get("insecure-skip-tls-verify", False), bool):',
        "if False:",
        f"{_CONFIG}::test_a_file_that_cannot_be_used_is_named_in_one_line[a TLS switch that is text]",
    ),
    Guard(
        "nobody runs as the user that impersonates",
        "kube.config:_refuse_unsupported",
        'if any(key == "as" or key.startswith("as-") for key in user):',
        "if False:",
        (f"{_CONFIG}::test_credentials_that_cannot_be_used_are_refused_instead_of_being_nobody[impersonation]"),
    ),
    Guard(
        "a URL is http or https and names a host",
        "kube.config:_refuse_bad_url",
        'if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:',
        "if False:",
        f"{_CONFIG}::test_a_file_that_cannot_be_used_is_named_in_one_line[a server without a scheme]",
    ),
    Guard(
        "verification is off only where the kubeconfig says so",
        "kube.config:_tls_context",
        "if not configuration.verify_ssl:",
        "if True:",
        f"{_CONFIG}::test_certificates_are_read_from_data_and_from_files",
    ),
    Guard(
        "certificates that cannot be used are found at the start",
        "kube.config:_tls_context",
        "except (OSError, ValueError) as error:",
        "except ZeroDivisionError as error:",
        f"{_CONFIG}::test_a_file_that_cannot_be_used_is_named_in_one_line[a CA that is no certificate]",
    ),
)
