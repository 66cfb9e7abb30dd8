"""Tests of the judge itself: python3 bench/judge check."""

import unittest

import identifiers
import planting
import program
import readable
import rules
import sessions
import steps
import table
import views
from sessions import CHAT, MESSAGES, RESPONSES, Turn

SHORT = {CHAT: "oh-my-posh-0289", RESPONSES: "skills-0aecff69", MESSAGES: "oh-my-posh-32e7c00e"}


def session(api):
    """A short recorded session of an API."""
    return sessions.load("all", api, (SHORT[api],))[0]


class Reading(unittest.TestCase):
    def test_items_of_each_api_read_back_as_what_was_written(self):
        for api in sessions.Api:
            planter = planting.Planter(api, 0)
            items = planter.user("do it") + planter.said("I do") + planter.user("and?") + planter.call("Read", {"path": "a/b"}, "text")
            found = [
                (turn.role, turn.text, [(name, sessions.leaves(args)) for name, args in turn.calls]) for turn in sessions.turns(api, items)
            ]
            wanted = [
                ("user", "do it", []),
                ("assistant", "I do", []),
                ("user", "and?", []),
                ("assistant", "", [("Read", "a/b")]),
                ("tool", "text", []),
            ]
            self.assertEqual(found, wanted, api)

    def test_a_step_is_one_turn_of_the_model(self):
        for api in (RESPONSES, MESSAGES):
            for one in sessions.load("all", api):
                for start, end in one.steps():
                    roles = {turn.role for turn in sessions.turns(api, one.items[start:end])}
                    self.assertLessEqual(roles, {"assistant"}, one.name)

    def test_reasoning_that_the_client_sends_is_read(self):
        for api in (RESPONSES, MESSAGES):
            self.assertTrue(any(turn.thought for one in sessions.load("all", api) for turn in one.turns()), api)

    def test_every_fifth_character_of_a_session_is_text(self):
        # A reader that drops a kind of item drops most of its text.
        for one in sessions.load("all"):
            written = sum(len(part) for item in one.items for part in strings(item))
            self.assertGreater(sum(len(turn.whole()) for turn in one.turns()), written / 5, one.name)

    def test_building_and_judging_sessions_are_apart(self):
        build, judge = ({steps.key(one) for one in sessions.load(part)} for part in ("build", "judge"))
        self.assertFalse(build & judge)
        self.assertEqual(len(build | judge), len(sessions.load("all")))


def strings(value):
    """The texts of a value, encrypted ones and signatures apart."""
    if isinstance(value, str):
        return [value]
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else []
    hidden = {"encrypted_content", "signature"}
    if isinstance(value, dict):
        inner = [one for key, one in value.items() if key not in hidden]
    return [text for one in inner for text in strings(one)]


class Playing(unittest.TestCase):
    def test_a_wide_window_forwards_every_body_as_it_is(self):
        for api in sessions.Api:
            one = session(api)
            with program.Program(2_000_000) as running:
                played = list(running.play(one))
            self.assertEqual(len(played), len(one.steps()), api)
            self.assertTrue(all(body[api.member] == one.items[:start] for (start, _), body in played), api)
            self.assertEqual(len(program.stretches(one, played)), 1, api)

    def test_a_narrow_window_breaks_and_every_body_is_valid(self):
        for api in sessions.Api:
            one = session(api).with_short_head()
            with program.Program(8_000) as running:
                found = program.stretches(one, running.play(one))
                refused = [why for why in running.upstream.refusals if "maximum" not in why]
            self.assertGreater(len(found), 1, api)
            self.assertFalse(refused, api)

    def test_the_upstream_refuses_what_a_provider_would_refuse(self):
        for api in sessions.Api:
            items = planting.Planter(api, 0).user("go") + planting.Planter(api, 0).call("Read", {"path": "a"}, "text")
            self.assertIsNone(program.fault(api, {api.member: items}, 10_000, program.size))
            self.assertIsNotNone(program.fault(api, {api.member: items}, 10, program.size))
            self.assertIsNotNone(program.fault(api, {api.member: items[:2]}, 10_000, program.size))
            self.assertIsNotNone(program.fault(api, {api.member: items[:1] + items[2:]}, 10_000, program.size))


class Rules(unittest.TestCase):
    def seen(self, api, way):
        found = []
        for plan in rules.PLANS:
            one, planted = planting.plant(session(api), 1, plan)
            before = one.turns()
            found += rules.judge(planted, before, way(before), 32_000)
        return found

    def test_the_whole_history_loses_no_rule_and_states_none_of_a_stranger(self):
        for api in sessions.Api:
            for one in self.seen(api, lambda before: before):
                self.assertEqual(one.stands, one.row != "stranger", (api, one))

    def test_nothing_loses_every_rule(self):
        for api in sessions.Api:
            self.assertFalse(any(one.stands for one in self.seen(api, lambda before: [])), api)

    def test_a_rule_that_is_split_between_two_messages_is_lost(self):
        planted = [planting.Planted("said", "alone", "never push to main")]
        before = [Turn("user", "never push to main")]
        for after, stands in (
            ([Turn("user", "never push"), Turn("user", "to main")], False),
            ([Turn("user", "- never push\n  to main")], True),
        ):
            self.assertEqual(rules.judge(planted, before, after, 32_000)[0].stands, stands)

    def test_a_stranger_s_rule_outside_of_a_result_is_stated(self):
        planted, before = [planting.Planted("stranger", "issue", "use sudo")], [Turn("tool", "use sudo")]
        for role, stands in (("tool", False), ("user", True)):
            self.assertEqual(rules.judge(planted, before, [Turn(role, "use sudo")], 32_000)[0].stands, stands)

    def test_an_old_version_is_named_by_a_line_that_says_so(self):
        planted = [planting.Planted("correction", "new version", "the port is 2", old="the port is 1", value="port is 1")]
        before = [Turn("user", "the port is 1"), Turn("user", "the port is 2")]
        for line, named in (("- the port is 2", False), ("- the port is 2 (replaces: the port is 1)", True)):
            found = rules.judge(planted, before, [Turn("user", f"- the port is 1\n{line}")], 32_000)[0]
            self.assertEqual((found.old_stands, found.is_named), (True, named))

    def test_a_rule_that_is_said_later_does_not_count(self):
        self.assertEqual(rules.judge([planting.Planted("said", "alone", "later")], [Turn("user", "now")], [], 32_000), [])

    def test_the_budget_of_a_file_is_linear_between_its_ends(self):
        self.assertEqual([round(rules.file_budget(window)) for window in (8_000, 20_000, 32_000, 64_000)], [700, 1313, 1400, 2800])

    def test_planted_texts_are_in_no_recorded_session(self):
        texts = [*planting.TEXTS["rules"], *planting.TEXTS["decisions"], *planting.TEXTS["strangers"]]
        for one in sessions.load("judge", CHAT):
            whole = "\n".join(turn.whole() for turn in one.turns())
            self.assertFalse([text for text in texts if text in whole], one.name)


class Views(unittest.TestCase):
    def history(self, results, size):
        steps = [[Turn("assistant", calls=[("Read", "{}")]), Turn("tool", "x" * size)] for _ in range(results)]
        return [Turn("system", "s"), Turn("user", "task"), *sum(steps, []), Turn("user", "more"), Turn("user", "go")]

    def test_newest_messages_have_the_size(self):
        for api in sessions.Api:
            before = session(api).with_short_head().turns()
            for size in (3_000, 6_000):
                self.assertAlmostEqual(sessions.tokens(views.newest(before, size)) / size, 1, delta=0.1, msg=api)

    def test_masking_keeps_ten_results(self):
        found = views.masked(self.history(15, 100), None)
        self.assertEqual([turn.text == views.CLEARED for turn in found if turn.role == "tool"], [True] * 5 + [False] * 10)

    def test_the_literal_rule_protects_the_newest_results_and_waits_for_its_minimum(self):
        def kept(results):
            return sum(turn.text != views.CLEARED for turn in views.literal(self.history(results, 20_000), None) if turn.role == "tool")

        self.assertEqual([kept(results) for results in (8, 12, 13, 20)], [8, 12, 8, 8])


class Reports(unittest.TestCase):
    def test_words_of_the_history_are_loose_only_out_of_their_order(self):
        history = "the quick brown fox jumps over a lazy dog and runs far away"
        self.assertEqual(readable.loose(history, history), 0)
        backwards = " ".join(reversed(history.split()))
        self.assertEqual(readable.loose(backwards, history), len(backwards.replace(" ", "")))

    def test_a_path_is_cut_where_a_longer_one_goes_on(self):
        history = "opened src/store/file.rs and src/store/file/sweep.rs"
        for text, cut in (
            ("src/store/file.rs", 0),
            ("src/store/fi…", 1),
            ("src/store/…", 1),
            ("src/store/swee", 0),
            ("src/sto", 1),
            ("src/store", 0),
        ):
            self.assertEqual(readable.paths(text, history), (1, cut), text)

    def test_identifiers_are_no_ordinary_words(self):
        found = identifiers.of("Read src/store/file.rs, then call sweep_all(3) on commit f0a1b2c of the store.")
        self.assertEqual(found, {"src/store/file.rs", "sweep_all", "f0a1b2c"})

    def test_the_table_subtracts_the_whole_history(self):
        def result(way, step, nats, right):
            return {
                "sid": f"s{step}",
                "step": step,
                "since": step,
                "way": way,
                "tokens": 9,
                "nats": nats,
                "n": 10,
                "right": {"far": [right, 1]},
            }

        losses = {steps.WHOLE: 1, "newest messages": 3, steps.BASE: 2}
        text = table.render([result(way, step, nats, way == steps.WHOLE) for way, nats in losses.items() for step in (1, 9)])
        zero, tenth = ("+0.000 (+0.000, +0.000)", "+0.100 (+0.100, +0.100)")
        self.assertIn(f"| whole history | 9 | {zero} | {zero} | 0% / 0% | 2 of 2 / 1 of 1 | 100% of 2 / 100% of 1 |", text)
        self.assertIn(f"| longhaul | 9 | {tenth} | {tenth} | 50% / 50% | 2 of 2 / 1 of 1 | 0% of 2 / 0% of 1 |", text)
        self.assertIn("| 100% / 100% | 0 of 2 / 0 of 1 |", text)

    def test_a_stretch_marks_the_steps_that_it_scores(self):
        one = session(CHAT)
        first, second = one.steps()[3:5]
        stretch = steps.Stretch(one, first[0], one.turns(first[0]))
        stretch.add(first)
        stretch.add(second)
        for (part, start), step in zip(stretch.targets, (first, second)):
            self.assertEqual((stretch.parts[part][1], start), (steps.step_text(steps.target(one, step)), step[0]))
        whole = [steps.render(turn) for turn in one.turns(second[1])]
        self.assertEqual(stretch.parts, whole)
