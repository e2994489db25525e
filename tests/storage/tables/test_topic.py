"""A topic and one of its subscriptions, in one number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.tables.topic import number_of, subscription_of, subscriptions_of, topic_of
from tests.examples import examples


@examples(100)
@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 16) - 1))
def test_a_subscription_names_its_topic_and_itself(topic: int, number: int) -> None:
    """Whatever the two numbers are: no two subscriptions are alike."""
    subscription = subscription_of(topic, number)
    assert (topic_of(subscription), number_of(subscription)) == (topic, number)


def test_of_columns_it_is_the_first_of_each_topic() -> None:
    """As one by one."""
    topics = np.array([3, 1, (1 << 32) - 1], np.uint32)
    assert subscriptions_of(topics).tolist() == [subscription_of(topic) for topic in topics.tolist()]
