"""RewardFlow: a potential that is propagated back from success."""
