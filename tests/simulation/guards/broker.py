"""Guards of Redis and of settings: what is fit, what is counted, and what no process starts with."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_CORRECTIONS = "tests/unit/runtime/test_corrections.py"
_BACKOFF = "tests/unit/runtime/test_backoff.py"
_BROKER = "tests/unit/runtime/test_broker.py"
_SETTINGS = "tests/unit/runtime/test_settings.py"
_PROPERTIES_SETTINGS = "tests/properties/test_settings.py"
_SENDER = "tests/integration/test_sender.py"
_DISPATCH = "tests/unit/runtime/test_dispatch.py"
_APP = "tests/unit/workers/test_app.py"
_BACKLOG = "tests/monitoring/test_backlog.py"
_HEALTH = "tests/unit/runtime/test_health.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a correction that counts begins no new minute",
        "runtime.corrections:CorrectionCounter.note",
        "nx=True, ",
        "",
        f"{_CORRECTIONS}::test_a_few_corrections_are_forgotten_a_minute_after_the_first",
    ),
    Guard(
        "a few corrections are forgotten after a minute",
        "runtime.corrections:CorrectionCounter.note",
        ", px=WINDOW",
        "",
        f"{_CORRECTIONS}::test_a_few_corrections_are_forgotten_a_minute_after_the_first",
    ),
    Guard(
        "a fight is remembered for longer than a pause",
        "runtime.corrections:CorrectionCounter.note",
        "self._client.pexpire(name, MEMORY)",
        "pass",
        f"{_CORRECTIONS}::test_a_fight_is_remembered_for_longer_than_the_longest_pause",
    ),
    Guard(
        "without Redis a correction counts as the first",
        "runtime.corrections:CorrectionCounter.note",
        "except BrokerUnavailable as error:",
        "except ZeroDivisionError as error:",
        f"{_CORRECTIONS}::test_without_redis_each_correction_counts_as_the_first_and_is_logged",
    ),
    Guard(
        "no pause of a key is longer than two minutes",
        "runtime.backoff:pause",
        "min(LONGEST_SECONDS, BASE_SECONDS * 2.0 ** min(failures - 1, 32))",
        "BASE_SECONDS * 2.0 ** min(failures - 1, 32)",
        f"{_BACKOFF}::test_pauses[no pause is longer than two minutes]",
    ),
    Guard(
        "keys that failed together come back apart",
        "runtime.backoff:pause",
        "rng.random() * longest / 2",
        "longest / 2",
        f"{_BACKOFF}::test_pauses[and at least half of one]",
    ),
    Guard(
        "a pause of a key never undercuts what was asked for",
        "runtime.backoff:pause",
        "if retry_after is None:",
        "if True:",
        f"{_BACKOFF}::test_pauses[what the server asked for is not undercut]",
    ),
    Guard(
        "no server silences a key for longer than an hour",
        "runtime.backoff:pause",
        "min(retry_after, LONGEST_ASKED_SECONDS)",
        "retry_after",
        f"{_BACKOFF}::test_pauses[a server cannot silence a key for good]",
    ),
    Guard(
        "no server shortens the pause of a key",
        "runtime.backoff:pause",
        "max(chosen, min(retry_after, LONGEST_ASKED_SECONDS))",
        "min(retry_after, LONGEST_ASKED_SECONDS)",
        f"{_BACKOFF}::test_pauses[nor does it shorten a pause]",
    ),
    Guard(
        "every error of Redis is one of the broker",
        "runtime.broker:translated",
        "except redis.RedisError as error:",
        "except redis.ConnectionError as error:",
        f"{_BROKER}::test_every_error_of_the_client_is_translated[AskError]",
    ),
    Guard(
        "a Redis that may evict is not fit",
        "runtime.broker:findings_in",
        'if policy != "noeviction":',
        "if False:",
        f"{_BROKER}::test_findings[one that evicts]",
    ),
    Guard(
        "a Redis that is too old is not fit",
        "runtime.broker:findings_in",
        "if _version(version) < OLDEST_VERSION:",
        "if False:",
        f"{_BROKER}::test_findings[an old server]",
    ),
    Guard(
        "a Redis that does not answer is not fit",
        "runtime.broker:check_broker",
        "except BrokerUnavailable as error:",
        "except ZeroDivisionError as error:",
        f"{_BROKER}::test_an_unreachable_broker_is_a_finding",
    ),
    Guard(
        "recovery is not enabled without a namespace of its own",
        "runtime.settings:Settings._check_together",
        "if self.enable_tombstone_recovery and not self.pod_namespace:",
        "if False:",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[recovery without a namespace]",
    ),
    Guard(
        "all namespaces and one namespace exclude each other",
        "runtime.settings:Settings._check_together",
        "if self.all_namespaces and self.composition_namespace:",
        "if False:",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[all and one namespace]",
    ),
    Guard(
        "a task is interrupted before its process is killed",
        "runtime.settings:Settings._check_together",
        "if not self.task_soft_time_limit < self.task_time_limit:",
        "if False:",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[soft over hard]",
    ),
    Guard(
        "no message is handed out again that may still be worked on",
        "runtime.settings:Settings._check_together",
        "if not self.task_time_limit < self.visibility_timeout:",
        "if False:",
        (
            f"{_SETTINGS}::test_settings_that_are_refused_with_one_line"
            "[a message would be delivered again while it is worked on]"
        ),
    ),
    Guard(
        "lease times that could make two leaders are refused at the start",
        "runtime.settings:Settings._check_together",
        "if not self.lease_retry_period * LEASE_SPREAD < self.lease_renew_deadline < self.lease_duration:",
        "if False:",
        (f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[a leader would lead while others take over]"),
    ),
    Guard(
        "all namespaces are looked after only when that was asked for",
        "runtime.settings:Settings.scope",
        "if namespace is None:",
        'namespace = namespace or ""\n        if namespace is None:',
        f"{_SETTINGS}::test_without_any_namespace_there_is_no_scope",
    ),
    Guard(
        "a broker is a Redis with a host",
        "runtime.settings:_broker",
        "if not valid:",
        "if False:",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[another broker]",
    ),
    Guard(
        "a broker's URL that cannot be split is refused without its password",
        "runtime.settings:_broker",
        "except ValueError:",
        "except ZeroDivisionError:",
        f"{_PROPERTIES_SETTINGS}::test_a_url_that_cannot_be_split_is_refused_without_its_password",
    ),
    Guard(
        "a broker's database is a number",
        "runtime.settings:_broker",
        "if database and not database.isdecimal():",
        "if False:",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[a database by name]",
    ),
    Guard(
        "a selector that selects nothing meant is refused",
        "runtime.settings:_selector",
        "LabelSelector.parse(value)",
        "pass",
        f"{_SETTINGS}::test_settings_that_are_refused_with_one_line[a selector]",
    ),
    Guard(
        "no password is shown with a broker",
        "runtime.settings:Settings.broker_host",
        "{parts.hostname}:",
        "{parts.netloc}:",
        f"{_SETTINGS}::test_the_broker_is_named_without_credentials",
    ),
    Guard(
        "messages go into the queue of their task",
        "runtime.sender:CelerySender._publish",
        "message.task.queue(self._instance)",
        "TaskName.GATE.queue(self._instance)",
        f"{_SENDER}::test_a_message_is_the_one_that_send_task_makes[cleanup]",
    ),
    Guard(
        "a message that could not be sent is told in one line",
        "runtime.sender:CelerySender.send",
        "except (OperationalError, BatchPublishError, redis.RedisError, OSError) as error:",
        "except ZeroDivisionError as error:",
        f"{_SENDER}::test_a_redis_that_is_away_is_told_in_one_line",
    ),
    Guard(
        "instances do not restore each other's messages",
        "runtime.sender:celery_configuration",
        '"unacked_key": f"{instance}.unacked",',
        '"unacked_key": "unacked",',
        f"{_DISPATCH}::test_two_instances_share_no_name_in_redis",
    ),
    Guard(
        "only JSON is read from a queue",
        "runtime.sender:celery_configuration",
        '"accept_content": ["json"]',
        '"accept_content": ["json", "pickle"]',
        f"{_APP}::test_configuration[accept_content-value4]",
    ),
    Guard(
        "a message is given out again after the time that the settings say",
        "runtime.sender:celery_configuration",
        '"visibility_timeout": settings.visibility_timeout,',
        "",
        f"{_APP}::test_a_message_is_given_out_again_after_the_time_that_the_settings_say",
    ),
    Guard(
        "results are not kept",
        "runtime.sender:celery_configuration",
        '"task_ignore_result": True',
        '"task_ignore_result": False',
        f"{_APP}::test_configuration[task_ignore_result-True]",
    ),
    Guard(
        "only one process tells of the backlog",
        "runtime.backlog:BacklogCollector.collect",
        "if not self._leads():",
        "if False:",
        f"{_BACKLOG}::test_a_standby_tells_nothing",
    ),
    Guard(
        "without Redis the other metrics are told all the same",
        "runtime.backlog:BacklogCollector.collect",
        "except BrokerUnavailable:",
        "except ZeroDivisionError:",
        f"{_BACKLOG}::test_a_redis_that_is_away_is_told_and_no_number_is_made_up",
    ),
    Guard(
        "messages with workers count as backlog",
        "runtime.backlog:BacklogReader.read",
        "Counter(self._tasks_of(reserved))",
        "Counter()",
        f"{_BACKLOG}::test_messages_that_workers_hold_count",
    ),
    Guard(
        "what others have put into Redis is no message of ours",
        "runtime.backlog:BacklogReader._tasks_of",
        " if queue in tasks",
        "",
        f"{_BACKLOG}::test_what_is_no_message_of_ours_is_not_counted[a queue of another instance]",
    ),
    Guard(
        "a process that says what is wrong is not well",
        "runtime.health:_Handler.do_GET",
        "elif defects := check():",
        "elif (defects := check()) and False:",
        f"{_HEALTH}::test_a_probe_answers_503_with_one_defect_a_line",
    ),
)
